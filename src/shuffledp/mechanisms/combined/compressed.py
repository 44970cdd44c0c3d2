"""A randomizer whose message is the seed of one of its messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.array import Array, Floats
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.reference import ApproximateReference, Reference
from shuffledp.mechanisms.parts.seed import SeedExpansion, SeedLaw, SeedReading, SeedWire
from shuffledp.mechanisms.parts.seed_guarantee import Promise, SeedGuarantee
from shuffledp.mechanisms.parts.user_values import ValuesOf
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.approximate_ldp import ApproximateLDP
from shuffledp.privacy.cut_randomizer import CutRandomizer
from shuffledp.privacy.randomizer import HasTails
from shuffledp.sampling.prg import PseudorandomGenerator, Seeds, generator
from shuffledp.sampling.random import WORD, RandomSource

PREFIX = "compressed"
"""Before the name of the randomizer, on the command line and in plans."""
MOST_TRIES = 1 << 32
"""Seeds that are tried for one message on average, at most: hours of work."""


@dataclass(frozen=True)
class Compressed(Mechanism, HasTails):
    """Send a seed that a generator expands to a message: draw seeds until one's message is accepted for the value.

    A seed s stands for y = R_∅(G(s)), a draw from the reference law ρ; it is accepted with probability
    R(x)(y)/(C·ρ(y)), capped at 1 for randomizers that are private only up to δ. After J = ⌈C·ln(1/γ)/(1−δ)⌉ refused
    seeds a fresh one is sent, whatever it stands for. About C seeds are tried; the server expands what it gets.
    ``epsilon`` is the replacement guarantee of the seeds, for those who accept the generator's ``assumption``.

    ``randomizer``: a mechanism with a reference law, such as OUE or PrivUnitG, several runs of one (``Repeated``: the
    runs' ratios C multiply) or queries that have one each (``Parallel``). ``gamma``: γ, the chance that every seed is
    refused. ``prg``: the generator that expands seeds, "aes-ctr" (the default), "chacha20" or "shake128", or one of
    your own.

    Theorem: [LC] Algorithms 1 and 4; guarantees: see ``SeedGuarantee``.
    Requires: a randomizer that gives its reference law; 0 < γ < 1.
    Deviates: C is the largest density ratio, not e^ε (fewer tries). Estimates and variances are those of the
    randomizer; they are off by what a law within ``total_variation`` of it can be off by.

    >>> import shuffledp as sdp
    >>> rappor = sdp.RAPPOR(epsilon=2.0, options=1000)
    >>> seeds = sdp.Compressed(rappor, prg="shake128")
    >>> rappor.message_bits, seeds.message_bits
    (1000, 128)
    >>> f"{seeds.epsilon:.4f}", seeds.tries
    ('2.0000', 57)
    """

    randomizer: Mechanism
    gamma: float = 1e-9
    prg: str | PseudorandomGenerator = "aes-ctr"
    epsilon: float = field(init=False)

    summary = "the seed of a message instead of the message; private if the seeds' generator is pseudorandom"
    built_from_numbers = False
    has_table = False

    def __post_init__(self) -> None:
        if not self.fits(self.randomizer):
            raise TypeError(f"Compressed: expected a randomizer that gives its reference law, got {self.randomizer!r}.")
        object.__setattr__(self, "gamma", argument.open_probability("Compressed", "gamma", self.gamma))
        assert self.generator
        if self.given.ratio > MOST_TRIES:
            raise ValueError(
                f"Compressed: the density ratio to the reference law must be small enough to try seeds, got "
                f"{self.given.ratio:.3g}; lower the local epsilon."
            )
        if not self.guarantee.holds():
            raise ValueError(
                f"Compressed: needs δ + C·β_G + rounding below 1/4, got {float(self.guarantee.reach):.3g}; lower the "
                f"local epsilon."
            )
        object.__setattr__(self, "epsilon", self.promise.replacement_epsilon)

    @classmethod
    def fits(cls, randomizer: Any) -> bool:
        """Whether it can be compressed at all."""
        return isinstance(randomizer, Mechanism) and randomizer.reference is not None

    @cached_property
    def given(self) -> Reference:
        """The randomizer's reference law."""
        reference = self.randomizer.reference
        assert reference is not None, "checked by the constructor"
        return reference

    @cached_property
    def generator(self) -> PseudorandomGenerator:
        """G."""
        return generator("Compressed", self.prg)

    @cached_property
    def tries(self) -> int:
        """J: seeds that are tried before a fresh one is sent."""
        with precision(128):
            budget = arb(self.given.ratio) * -arb(self.gamma).log()
            return math.ceil(round_up(budget / (1 - arb(self._base.deletion_delta))))

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{PREFIX}-{self.randomizer.name}"

    def settings(self) -> dict[str, Any]:
        """The randomizer's settings and its own, as the catalogue builds it from its name."""
        return {**self.randomizer.settings(), "gamma": self.gamma, "prg": self.generator.name}

    # --- its parts --------------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> ValuesOf:
        return ValuesOf("Compressed", self.randomizer.values)

    @cached_property
    def law(self) -> SeedLaw:
        return SeedLaw("Compressed", self.guarantee, self.randomizer.law)

    @cached_property
    def wire(self) -> SeedWire:
        return SeedWire("Compressed", self.generator.seed_bits)

    @cached_property
    def expansion(self) -> SeedExpansion:
        """What seeds stand for."""
        return SeedExpansion(self.given, self.generator)

    @cached_property
    def reading(self) -> SeedReading:
        return SeedReading(self.wire, self.expansion, self.randomizer.reading)

    # --- its guarantee ----------------------------------------------------------------------------------------

    @cached_property
    def _base(self) -> Promise:
        """What the randomizer promises."""
        given = self.given
        if isinstance(given, ApproximateReference):
            # The cap is at C, which is what the deletion ε of the capped law follows from.
            near = max(given.deletion_epsilon, _log_up(given.ratio))
            return Promise(given.replacement_epsilon, given.replacement_delta, near, given.deletion_delta)
        return Promise(_log_up(self.randomizer.variation_ratio().largest_ratio), 0.0, given.deletion_epsilon, 0.0)

    @cached_property
    def guarantee(self) -> SeedGuarantee:
        """How the guarantees follow from those of the randomizer."""
        given = self.given
        return SeedGuarantee(
            given.ratio, given.least_ratio, self.tries, self.gamma, self.generator.advantage, given.acceptance_error,
            given.rounding, self._base,
        )  # fmt: skip

    @property
    def has_tails(self) -> bool:
        """Where the seeds are private only up to δ."""
        return not self.guarantee.pure

    def without_tails(self, share: float) -> CutRandomizer | None:
        """All that is known of seeds that are private up to δ, by themselves."""
        delta = self.promise.replacement_delta
        if delta > ApproximateLDP.most_delta(self.epsilon):
            return None
        return ApproximateLDP(self.epsilon, delta).without_tails(share)

    @property
    def local_epsilon(self) -> float | None:
        """None where a seed alone is private only up to δ."""
        return self.epsilon if self.guarantee.pure else None

    @property
    def promise(self) -> Promise:
        """The guarantees of the seeds that are sent, under the ``assumption``."""
        return self.guarantee.seeds

    @property
    def assumption(self) -> str:
        """What must hold for the guarantees, in words, and what is left where it does not."""
        return self.assumed_of(1)

    def assumed_of(self, seeds: int) -> str:
        """The same for a report of so many seeds."""
        fallback, sentence = self.guarantee.whatever_the_generator, f"Assumes that {self.generator.assumption}"
        if fallback is None:
            return sentence
        rounded_up = math.ceil(seeds * Fraction(fallback.replacement_epsilon) * 1000) / 1000
        return (
            f"{sentence} Whatever the generator is, replacing a value changes no probability of a report by more than "
            f"e^{rounded_up:g}."
        )

    @property
    def total_variation(self) -> float:
        """How far the law of the expanded messages is from the randomizer's, under the ``assumption``."""
        return self.guarantee.total_variation

    # --- running it -------------------------------------------------------------------------------------------

    @property
    def words_tried(self) -> float:
        return float(self.given.ratio * self.given.words)

    @property
    def steps_tried(self) -> float:
        """About how many steps a client takes on average to find a seed."""
        return float(self.given.ratio * self.given.steps)

    @property
    def task(self) -> str:  # type: ignore[override]
        return str(self.randomizer.task)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        values = self.given.drawn(values, source)
        # Who runs out of tries sends the seed drawn here, which was never tried.
        seeds = self._fresh(len(values), source)
        waiting, tried = np.arange(len(values)), 0
        while waiting.size and tried < self.tries:
            # One try for everyone; the last few get several at once, but hardly more than they will need.
            several = min(self.expansion.rows_at_once // waiting.size, math.ceil(self.given.ratio))
            count = min(max(1, several), self.tries - tried)
            drawn = self._fresh(waiting.size * count, source)
            users = np.repeat(waiting, count)
            accepted = self._accepted(values, users, drawn, source).reshape(-1, count)
            lucky, first = accepted.any(axis=1), accepted.argmax(axis=1)
            seeds[waiting[lucky]] = drawn.reshape(len(waiting), count, -1)[lucky, first[lucky]]
            waiting, tried = waiting[~lucky], tried + count
        return seeds

    def _fresh(self, count: int, source: RandomSource) -> Seeds:
        """Uniform seeds."""
        words = -(-self.generator.seed_bytes // 8)
        rows = source.words(count * words).view(np.uint8).reshape(count, 8 * words)
        return np.ascontiguousarray(rows[:, : self.generator.seed_bytes])

    def _accepted(self, values: Array, users: Array, seeds: Seeds, source: RandomSource) -> NDArray[np.bool_]:
        """Whether each seed is accepted for the value of the user beside it."""
        parts = [
            _coins(self.given.acceptance(values[users[rows]], messages), source)
            for rows, messages in self.expansion.parts(seeds)
        ]
        return np.concatenate(parts)

    def expand(self, messages: Array) -> Array:
        """The randomizer's messages that the seeds stand for."""
        return self.reading.expand(messages)

    # --- for tests ----------------------------------------------------------------------------------------------

    def table(self) -> OutputTable:
        raise ValueError(f"Compressed: 2^{self.message_bits} seeds cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[Compressed]:
        from shuffledp.mechanisms.combined.parallel import Parallel
        from shuffledp.mechanisms.combined.repeated import Repeated
        from shuffledp.mechanisms.frequency.rappor import RAPPOR
        from shuffledp.mechanisms.frequency.subset import Subset
        from shuffledp.mechanisms.given.from_table import FromTable
        from shuffledp.mechanisms.mean.gaussian import Gaussian
        from shuffledp.mechanisms.mean.laplace import Laplace
        from shuffledp.mechanisms.metric.planar_laplace import PlanarLaplace
        from shuffledp.mechanisms.vector.duchi import Duchi
        from shuffledp.mechanisms.vector.privhs import PrivHS

        return [
            cls(RAPPOR(2.0, 40)),
            cls(Subset(1.0, 8), prg="chacha20"),
            cls(FromTable([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]), prg="shake128"),
            cls(Laplace(1.0, -2.0, 3.0, 50), prg="shake128"),
            cls(Gaussian(2.0, -2.0, 3.0), prg="shake128"),
            cls(PlanarLaplace(2.0, columns=3), prg="shake128"),
            cls(Duchi(2.0, 200)),
            cls(Repeated(PrivHS(0.5, 2), 2), prg="shake128"),
            cls(Parallel([Laplace(1.0, grid=7), Duchi(1.0, 3)], [1, 3]), prg="shake128"),
        ]


def _log_up(number: float) -> float:
    with precision(128):
        return round_up(arb(number).log())


def _coins(chances: Floats, source: RandomSource) -> NDArray[np.bool_]:
    """True with each chance, rounded down to a multiple of 2^-64; a chance of 1 or more always."""
    words = source.words(len(chances))
    sure = chances >= 1.0
    # A float below 1 times 2^64 is below 2^64, and exact.
    thresholds = np.where(sure, 0.0, chances * float(WORD)).astype(np.uint64)
    return np.asarray(sure | (words < thresholds))
