"""Two inputs of a metric space by every theorem, beside what none of them can be below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shuffledp import argument
from shuffledp.metric.amplification import all_amplifications
from shuffledp.metric.amplified import AmplifiedMetric
from shuffledp.metric.lower import lower_bound
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.privacy.value import BoundValue
from shuffledp.progress import Progress


@dataclass(frozen=True)
class ComparedPair:
    """What is left of one distance after shuffling, by every theorem.

    ``first``, ``second``: the numbers of the two inputs. ``local``: their distance. ``values``: one for each theorem,
    by its name. ``lower``: what no theorem for all randomizers can be below; None, and ``why`` says the reason, where
    the distances leave no randomizer to attack.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0]])
    >>> (found,) = sdp.metric.compare_pairs(places, users=10_000, delta=1e-6)
    >>> found.local, found.best, found.lower < found.values["clone"].upper
    (1.0, 'all-crowds', True)
    """

    first: int
    second: int
    local: float
    values: dict[str, BoundValue]
    lower: float | None
    why: str = ""

    @property
    def best(self) -> str:
        """The theorem with the smallest value."""
        return min(self.values, key=lambda name: self.values[name].upper)


def compare_pairs(
    space: DistanceMatrix,
    users: float,
    delta: float,
    pairs: Sequence[tuple[int, int]] | None = None,
    progress: Progress | None = None,
) -> list[ComparedPair]:
    """Every theorem for some pairs of inputs, by default for all, and the lower bound of the padded exponential.

    >>> import shuffledp as sdp
    >>> places = sdp.metric.DistanceMatrix.from_points([[0.0], [1.0], [2.0]])
    >>> (found,) = sdp.metric.compare_pairs(places, users=10_000, delta=1e-6, pairs=[(0, 1)])
    >>> found.best, f"{found.lower:.4f} {found.values['all-crowds'].upper:.4f} {found.values['theorem-1'].upper:.4f}"
    ('all-crowds', '0.0532 0.0591 0.1349')
    """
    count = argument.count("compare_pairs", "users", users)
    metrics = {name: AmplifiedMetric(space, count, delta, name) for name in all_amplifications()}
    asked = list(space.pairs() if pairs is None else pairs)
    return [_compared(space, metrics, *pair) for pair in (progress or Progress()).each("comparing", asked)]


def _compared(space: DistanceMatrix, metrics: dict[str, AmplifiedMetric], first: int, second: int) -> ComparedPair:
    values = {name: metric(first, second) for name, metric in metrics.items()}
    one = next(iter(metrics.values()))
    try:
        lower, why = lower_bound(space, first, second, one.users, one.delta), ""
    except ValueError as error:
        lower, why = None, str(error)
    return ComparedPair(first, second, float(space.matrix[first, second]), values, lower, why)
