"""Cancelling noise for sets: users send their true items, and together add noise most of which cancels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp._core import validation
from shuffledp._core.types import Array
from shuffledp.mechanisms.base.domain import BoundedItemSet
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import SharedNoise
from shuffledp.mechanisms.correlated_noise.cancelling_noise import (
    PLANNED_ERRORS,
    CancellingNoise,
    NoiseShare,
    SignedCountsEstimator,
    design_noise,
)
from shuffledp.privacy.randomizer import HasParts, Randomizer
from shuffledp.sampling.random_sources import RandomSource

ERROR_PREFIX = "CancellingSets"


@dataclass(frozen=True)
class CancellingSets(Mechanism, HasParts):
    """Sends every item of a set unperturbed; all users together, or the shuffler, add noise as in ``CancellingNoise``.

    A user holds any number of items up to ``items`` and sends one message for each. The number of a user's messages
    reveals the size of their set to whoever sees it, such as the shuffler; the noise hides it from the analyst. There
    is no local ε.

    Theorem: a changed set takes messages away from at most ``items`` options and adds some to at most ``items`` others:
    the losses of as many pairs of counts, which are independent, composed.
    Requires: d ≥ 2; 1 ≤ items < d.

    Args:
        options: Number of options d; items are numbered from 0 to d − 1.
        items: Largest number of items of one user.
        rate: Rate of the noise that does not cancel.
        shape: Shape of the noise that cancels.
        ratio: Ratio of the noise that cancels.
        honest: Number of honest users who add the noise together; 0 if the shuffler draws it.

    Raises:
        ValueError: If a parameter is out of range.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.CancellingSets(options=50, items=3, rate=0.15, shape=20, ratio=0.97, honest=100_000)
    >>> f"{sdp.amplify(mechanism, users=100_000).epsilon(delta=1e-6).upper:.3f}"
    '0.938'
    """

    options: int
    items: int
    rate: float
    shape: float
    ratio: float
    honest: int

    name = "cancelling-sets"
    task = "set-valued"
    summary = "every item, and noise that cancels: a curator's error, private only by the shuffler"
    use_case = "For sets near a curator's error, where the shuffler is trusted."
    tunable = (TunableParameter("shape", False, True, 0.1, 1e3),)
    has_table = False
    has_design_frontier = True

    def __post_init__(self) -> None:
        with validation.relabel_errors(ERROR_PREFIX, CancellingNoise.__name__):
            one = CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest)
        for name in ("options", "rate", "shape", "ratio", "honest"):
            object.__setattr__(self, name, getattr(one, name))
        object.__setattr__(self, "items", validation.count(ERROR_PREFIX, "items", self.items))
        if self.items >= self.options:
            raise ValueError(f"{ERROR_PREFIX}: items must be below the {self.options} options, got {self.items}.")

    @cached_property
    def single_item_mechanism(self) -> CancellingNoise:
        """The same noise for users with one item each: it gives the loss of one pair of counts."""
        return CancellingNoise(self.options, self.rate, self.shape, self.ratio, self.honest)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.single_item_mechanism.noise, self.options, Fraction(1, max(1, self.honest)))

    @cached_property
    def domain(self) -> BoundedItemSet:
        return BoundedItemSet(ERROR_PREFIX, self.options, self.items)

    @property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw(ERROR_PREFIX)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return SharedNoise(self.items, self._share.messages, self.honest, is_exact=False)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding(ERROR_PREFIX, 2 * self.options)

    @cached_property
    def estimator(self) -> SignedCountsEstimator:
        return SignedCountsEstimator(
            self.options, self.single_item_mechanism.noise, self.honest, has_single_option=False
        )

    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        return [(self.single_item_mechanism, self.items)]

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns the messages of all users, 2·option for and 2·option + 1 against an option.

        Args:
            values: Checked sets, one row of items per user, padded with −1.
            source: Source of randomness.

        Returns:
            Messages of all users, first the items of all users.
        """
        own = 2 * values[values >= 0]
        return own if self.honest == 0 else np.concatenate([own, self._share.draw(source, len(values))])

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        """Draws the noise if the shuffler is to add it.

        Args:
            source: Source of randomness.

        Returns:
            The noise messages; None if the users draw the noise.
        """
        return self._share.draw(source, 1) if self.honest == 0 else None

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields designs from least error to fewest messages, and the most accurate one also with the shuffler's noise.

        Args:
            facts: Known facts of the task: ``options`` and ``items`` are required; ``users``, if present, is the
                expected number of users.
            users: Fewest honest users for whom the target must hold.
            epsilon: Target ε of all rounds together.
            delta: Target δ of all rounds together.
            rounds: Number of rounds in which the same users take part.

        Yields:
            Constructor arguments by name, the most accurate design first.
        """
        sizes = {"options": facts["options"], "items": facts["items"]}
        for times in PLANNED_ERRORS:
            found = design_noise(times, epsilon, delta, rounds, 2 * facts["items"])
            if found is not None:
                rate, flood = found
                noise = {"rate": rate, "shape": flood.shape, "ratio": flood.ratio}
                if times == PLANNED_ERRORS[0]:
                    yield {**sizes, **noise, "honest": 0}
                yield {**sizes, **noise, "honest": users}

    def table(self) -> OutputTable:
        raise ValueError(f"{ERROR_PREFIX}: its noise has no end, so that its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingSets]:
        return [
            cls(options=5, items=2, rate=0.5, shape=3.5, ratio=0.8, honest=25),
            cls(options=6, items=3, rate=0.8, shape=6.0, ratio=0.7, honest=0),
        ]
