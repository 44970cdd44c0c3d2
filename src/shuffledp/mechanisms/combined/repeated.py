"""Several runs of one vector mechanism on the same value, each with a part of the local ε, sent as one message."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Bytes, Floats, Words, checked
from shuffledp.mechanisms.base.domain import WrappedDomain
from shuffledp.mechanisms.base.encoding import Encoding, ValidRows
from shuffledp.mechanisms.base.estimator import Estimate, Estimator, Influence
from shuffledp.mechanisms.base.law import PairLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import Proposal, SeedLaw, exact_proposals
from shuffledp.mechanisms.base.two_level_law import TwoLevelLaw, TwoLevelResponse
from shuffledp.mechanisms.combined.compressed import Compressed
from shuffledp.mechanisms.vector._unit_ball_parts import UnitBall
from shuffledp.mechanisms.vector.privunit_g_and_privhs import PrivHS, PrivUnitG
from shuffledp.mechanisms.vector.sqkr import SQKR
from shuffledp.numerics.ball_arithmetic import float_above, to_rational
from shuffledp.privacy.dominating_pairs import ExactClass, HidingPair, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import RandomSource

# --- Encoding, estimator and proposal law of several runs ---


@dataclass(frozen=True)
class RepeatedEncoding(Encoding):
    """Encoding of the runs' messages, each in whole bytes, one after the other; in memory along the second axis."""

    error_prefix: str
    single: Encoding
    runs: int

    @property
    def bits(self) -> int:
        return 8 * self.runs * self.single.byte_length

    @property
    def expected_format(self) -> str:
        return f"{self.runs} times {self.single.expected_format}"

    def pack(self, messages: Array) -> Bytes:
        return np.concatenate([self.single.pack(messages[:, run]) for run in range(self.runs)], axis=1)

    def decode_rows(self, rows: Bytes) -> tuple[Array, ValidRows]:
        parts = [self.single.decode_rows(np.ascontiguousarray(part)) for part in np.split(rows, self.runs, axis=1)]
        return np.stack([messages for messages, _ in parts], axis=1), np.all([good for _, good in parts], axis=0)


@dataclass(frozen=True)
class RepeatedEstimator(Estimator):
    """Estimator of the mean over all runs of all users, as if each run were a user."""

    single: Estimator
    runs: int

    def accumulate(self, messages: Array) -> Array:
        return self.single.accumulate(messages.reshape(-1, *messages.shape[2:]))

    def finish(self, total: Array, users: int) -> Estimate:
        return replace(self.single.finish(total, users * self.runs), users=users)

    def influence(self, messages: float) -> Sequence[Influence] | None:
        """Returns the influence of one run: a liar's runs are all alike, and so is their mean."""
        return self.single.influence(messages)

    def truth(self, values: Array) -> Floats:
        return self.single.truth(values)

    def variance(self, values: Array) -> Floats:
        return np.asarray(self.single.variance(values) / self.runs)


@dataclass(frozen=True)
class RepeatedProposal(Proposal):
    """Product of the proposal laws of the runs: density ratios multiply, and so does the expected number of tries."""

    single: Proposal
    runs: int

    @property
    def ratio(self) -> float:
        return float_above(Fraction(self.single.ratio) ** self.runs)

    @property
    def min_ratio(self) -> Fraction:
        return self.single.min_ratio**self.runs

    @property
    def word_count(self) -> int:
        return self.runs * self.single.word_count

    def draw_messages(self, words: Words) -> Array:
        drawn = self.single.draw_messages(words.reshape(-1, self.single.word_count))
        return drawn.reshape(-1, self.runs, *drawn.shape[1:])

    def draw_latent_inputs(self, values: Array, source: RandomSource) -> Array:
        """Draws the latent inputs, one per run."""
        return np.stack([self.single.draw_latent_inputs(values, source) for _ in range(self.runs)], axis=1)

    def acceptance(self, values: Array, messages: Array) -> Floats:
        every = [rows.reshape(-1, *rows.shape[2:]) for rows in (values, messages)]
        chances = self.single.acceptance(*every).reshape(-1, self.runs).prod(axis=1)
        # The product of the ratios was rounded up.
        return np.asarray(chances * float(Fraction(self.single.ratio) ** self.runs / Fraction(self.ratio)))

    @property
    def acceptance_error(self) -> float:
        return float_above(self.runs * Fraction(self.single.acceptance_error))

    @property
    def rounding(self) -> Fraction:
        """The relative error of all runs' factors and of their product."""
        return 2 * self.runs * self.single.rounding


NAME_PREFIX = "repeated"
"""Prefix of the inner mechanism's name, on the command line and in plans."""
MAX_TABLE_MESSAGES = 1000
MAX_CLASSES = 2000
"""Largest number of message classes of all runs in an attack."""
NO_ATTACK_REASON = "no attack on one run with an exact law is known."


# --- The mechanism ---


@dataclass(frozen=True)
class Repeated(Mechanism):
    """Several runs of a mechanism on the same vector, sent as one message.

    m runs at ε each are one run at mε. The estimate is the mean over all messages, with 1/m of one run's variance: less
    than one run at mε if the error falls slowly in ε (PrivHS), more if it falls fast (PrivUnit), with a message m times
    as long. The pair of two inputs is the product of the runs' pairs, where classes with equally many runs in the
    region of each input are merged.

    Runs of a `Compressed` mechanism send a seed each. A run at ε tries about e^ε seeds or fewer, so m seeds are found
    exponentially faster than one for mε.

    Theorem: [LC] Lemma C.1: mε, error α/m, m times the bits. The product of dominating two-level pairs dominates: given
    the other runs, the density of one enters G linearly, and ``TwoLevelLaw``'s argument (``SeedLaw``'s for seeds) holds
    run by run.

    Args:
        mechanism: Mechanism for vectors in the unit ball, with the local ε of one run.
        runs: m, the number of runs.

    Raises:
        TypeError: If `mechanism` is not for vectors in the unit ball or its law is not two-level, or `runs` is not a
            number.
        ValueError: If `runs` is below 1.

    Example:
        >>> import shuffledp as sdp
        >>> once = sdp.PrivHS(epsilon=1.0, dimension=8)
        >>> mechanism = sdp.Repeated(once, runs=3)
        >>> mechanism.epsilon, mechanism.message_bits // once.message_bits
        (3.0, 3)
        >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
        '0.1528'
        >>> seeds = sdp.Repeated(sdp.Compressed(sdp.PrivUnitG(epsilon=4.0, dimension=1024)), runs=2)
        >>> f"{seeds.epsilon:.3f}", seeds.message_bits
        ('8.000', 256)
    """

    mechanism: Mechanism
    runs: int = field(metadata=checked(validation.count))
    epsilon: float = field(init=False)

    name = "repeated"
    task = "vector mean"
    summary = "mean of vectors in the unit ball: several runs of another mechanism, each with a part of ε"
    use_case = "For vectors by several short messages in place of a long one."
    has_numeric_settings = False
    tunable = ()

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields small numbers of runs: more add noise, unless the mechanism cannot use a large ε."""
        yield from ({"runs": runs} for runs in (2, 3, 4))

    def __post_init__(self) -> None:
        if not self.accepts(self.mechanism):
            raise TypeError(f"Repeated: mechanism must be one for vectors in the unit ball, got {self.mechanism!r}.")
        super().__post_init__()
        object.__setattr__(self, "epsilon", float_above(self.runs * Fraction(self.mechanism.epsilon)))
        object.__setattr__(self, "name", f"{NAME_PREFIX}-{self.mechanism.name}")

    @classmethod
    def accepts(cls, mechanism: Any) -> bool:
        """Returns True if an object is a mechanism for vectors in the unit ball whose law has at most two levels.

        Args:
            mechanism: The object.
        """
        vectors = isinstance(mechanism, Mechanism) and isinstance(mechanism.domain.innermost, UnitBall)
        return vectors and _find_response(mechanism) is not None

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ball = self.domain.innermost
        assert isinstance(ball, UnitBall)
        return ball.dimension

    @property
    def response(self) -> TwoLevelResponse:
        """The two-level response of one run."""
        region = _find_response(self.mechanism)
        assert region is not None, "checked by the constructor"
        return region

    @property
    def has_table(self) -> bool:  # type: ignore[override]
        return self.mechanism.has_table

    def settings(self) -> dict[str, Any]:
        """Returns the settings of one run, its ε among them, and the number of runs."""
        return self.mechanism.settings() | {"runs": self.runs}

    @property
    def assumption(self) -> str:
        """The assumption of one run, with its fallback guarantee stated for all runs."""
        one = self.mechanism
        return one.describe_assumption(self.runs) if isinstance(one, Compressed) else one.assumption

    # --- Parts ---

    @cached_property
    def domain(self) -> WrappedDomain:
        return WrappedDomain("Repeated", self.mechanism.domain)

    @cached_property
    def law(self) -> PairLaw:
        classes, region = _product_classes(self.response, self.runs), self.response
        ratio = float_above((region.inside_density / region.outside_density) ** self.runs)
        gap = sum((first - second for first, second, _ in classes if first > second), fmpq(0))
        parameters = VariationRatio(p=ratio, beta=float_above(Fraction(int(gap.p), int(gap.q))), q=ratio)
        attacked = tuple(self._attacks())
        hidden = exact_pair(classes, symmetric=True)
        return PairLaw(
            parameters, (hidden,), attack_pairs=attacked, missing_attack_reason="" if attacked else NO_ATTACK_REASON
        )

    def _attacks(self) -> Iterator[HidingPair]:
        """Yields the attacks on one run in which all others hold one value: their runs are independent, too."""
        if not isinstance(self.mechanism, PrivHS | SQKR):
            return
        for pair in self.mechanism.attacks():
            if pair.exact is not None and math.comb(self.runs + len(pair.exact) - 1, self.runs) <= MAX_CLASSES:
                yield exact_pair(_multiply_classes(pair.exact, self.runs), symmetric=pair.symmetric)

    @cached_property
    def encoding(self) -> RepeatedEncoding:
        return RepeatedEncoding("Repeated", self.mechanism.encoding, self.runs)

    @cached_property
    def estimator(self) -> RepeatedEstimator:
        return RepeatedEstimator(self.mechanism.estimator, self.runs)

    @cached_property
    def proposal(self) -> RepeatedProposal | None:
        """The product of one run's proposal laws, if it has one that bounds every ratio."""
        known = exact_proposals([self.mechanism.proposal])
        return None if known is None else RepeatedProposal(known[0], self.runs)

    # --- Running the mechanism ---

    @property
    def expected_random_words(self) -> float:
        return self.runs * self.mechanism.expected_random_words

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one message per user, with the runs along the second axis."""
        return np.stack([self.mechanism.randomize(values, source) for _ in range(self.runs)], axis=1)

    def table(self) -> OutputTable:
        if not self.has_table:
            raise ValueError(f"Repeated: runs of {self.mechanism.name} cannot be written down as a table.")
        single = self.mechanism.table()
        if len(single.messages) ** self.runs > MAX_TABLE_MESSAGES:
            raise ValueError(
                f"Repeated: a table needs fewer messages, got {len(single.messages)} in each of {self.runs} runs."
            )
        picks = list(itertools.product(range(len(single.messages)), repeat=self.runs))
        rows = tuple(
            tuple(math.prod((row[k] for k in pick), start=Fraction(1)) for pick in picks)
            for row in single.probabilities
        )
        return OutputTable(single.inputs, single.messages[np.array(picks)], rows)

    @classmethod
    def examples(cls) -> Sequence[Repeated]:
        return [
            cls(SQKR(0.5, 2), 2),
            cls(SQKR(1.0, 2, signs=1), 1),
            cls(Compressed(PrivHS(0.5, 2), prg="shake128"), 3),
            cls(Compressed(PrivUnitG(1.0, 3), prg="shake128"), 2),
        ]


def _find_response(mechanism: Mechanism) -> TwoLevelResponse | None:
    """Returns a two-level response between whose levels all densities of one run lie; None if it is not known.

    Its region is at most half of all messages.
    """
    law = mechanism.law
    if isinstance(law, SeedLaw):
        if not law.guarantee.is_pure:
            return None
        law = law.two_level_law
    return law.response if isinstance(law, TwoLevelLaw) and 2 * law.response.share <= 1 else None


def _product_classes(region: TwoLevelResponse, runs: int) -> list[ExactClass]:
    """Returns the product law of each number of runs in the first input's region, in the second's, and elsewhere."""
    share, low, high = (
        to_rational(region.share),
        to_rational(region.outside_density),
        to_rational(region.inside_density),
    )
    classes = []
    for first, second in _split_runs(runs):
        ways = math.comb(runs, first) * math.comb(runs - first, second)
        mass = ways * share ** (first + second) * (1 - 2 * share) ** (runs - first - second)
        others = low ** (runs - first - second)
        densities = (high**first * low**second * others, low**first * high**second * others, low**runs)
        classes.append((mass * densities[0], mass * densities[1], mass * densities[2]))
    return classes


def _multiply_classes(classes: Sequence[ExactClass], runs: int) -> list[ExactClass]:
    """Returns the product law, by the number of runs with a message of each class."""
    result = []
    for chosen in itertools.combinations_with_replacement(range(len(classes)), runs):
        counts = [chosen.count(place) for place in range(len(classes))]
        ways = math.factorial(runs) // math.prod(map(math.factorial, counts))
        powers = [[chance**count for chance in one] for one, count in zip(classes, counts, strict=True)]
        first, second, hiding = (ways * math.prod(factors, start=fmpq(1)) for factors in zip(*powers, strict=True))
        result.append((first, second, hiding))
    return result


def _split_runs(whole: int) -> Iterator[tuple[int, int]]:
    for first in range(whole + 1):
        for second in range(whole - first + 1):
            yield first, second
