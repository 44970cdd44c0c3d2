"""Compression of a mechanism's messages to seeds of a pseudorandom generator, by rejection sampling."""

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

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.domain import WrappedDomain
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable
from shuffledp.mechanisms.base.seed_compression import (
    ApproximateProposal,
    Proposal,
    ReplaceDeleteGuarantee,
    SeedEncoding,
    SeedEstimator,
    SeedExpansion,
    SeedGuarantee,
    SeedLaw,
)
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.privacy.randomizer_interface import HasTails, TruncatedRandomizer
from shuffledp.privacy.variation_ratio import ApproximateLDP
from shuffledp.sampling.random_sources import WORD_RANGE, PseudorandomGenerator, RandomSource, Seeds, resolve_generator

NAME_PREFIX = "compressed"
"""Prefix of the inner mechanism's name, on the command line and in plans."""
MAX_EXPECTED_TRIES = 1 << 32
"""Largest mean number of seeds that are tried for one message: hours of work."""


@dataclass(frozen=True)
class Compressed(Mechanism, HasTails):
    """Mechanism that sends a seed which a generator expands to a message of another mechanism.

    Seeds are drawn until the message of one is accepted for the value. A seed s stands for y = R_∅(G(s)), a draw from
    the proposal law ρ; it is accepted with probability R(x)(y)/(C·ρ(y)), capped at 1 for randomizers that are private
    only up to δ. After J = ⌈C·ln(1/γ)/(1−δ)⌉ rejected seeds a fresh one is sent unconditionally. About C seeds are
    tried; the server expands the seeds that it receives. `epsilon` is the replacement guarantee of the seeds, under the
    generator's `assumption`.

    Theorem: [LC] Algorithms 1 and 4; guarantees: see ``SeedGuarantee``.
    Requires: a randomizer with a proposal law; 0 < γ < 1.
    Deviates: C is the largest density ratio, not e^ε (fewer tries). Estimates and variances are those of the
    randomizer; they may be off as those of a law within ``total_variation`` of it.

    Args:
        randomizer: Mechanism with a proposal law, such as OUE or PrivUnitG, several runs of one (`Repeated`: the runs'
            ratios C multiply) or queries that have one each (`Parallel`).
        gamma: γ, the probability that every seed is rejected.
        prg: Generator that expands seeds: "aes-ctr" (the default), "chacha20", "shake128", or an object of your own.

    Raises:
        TypeError: If `randomizer` has no proposal law, or `gamma` is not a number.
        ValueError: If `gamma` is not strictly between 0 and 1, the generator is unknown, the density ratio is too large
            to try seeds, or δ + C·β_G + rounding is not below 1/4.

    Example:
        >>> import shuffledp as sdp
        >>> rappor = sdp.RAPPOR(epsilon=2.0, options=1000)
        >>> seeds = sdp.Compressed(rappor, prg="shake128")
        >>> rappor.message_bits, seeds.message_bits
        (1000, 128)
        >>> f"{seeds.epsilon:.4f}", seeds.tries
        ('2.0000', 57)
    """

    randomizer: Mechanism
    gamma: float = field(default=1e-9, metadata=checked(validation.open_probability))
    prg: str | PseudorandomGenerator = "aes-ctr"
    epsilon: float = field(init=False)

    summary = "the seed of a message instead of the message; private if the seeds' generator is pseudorandom"
    has_numeric_settings = False
    has_table = False

    def __post_init__(self) -> None:
        if not self.accepts(self.randomizer):
            raise TypeError(f"Compressed: expected a randomizer with a proposal law, got {self.randomizer!r}.")
        super().__post_init__()
        # An unknown generator raises here.
        assert self.generator
        if self.inner_proposal.ratio > MAX_EXPECTED_TRIES:
            raise ValueError(
                f"Compressed: the density ratio to the proposal law must be small enough to try seeds, got "
                f"{self.inner_proposal.ratio:.3g}; lower the local epsilon."
            )
        if not self.guarantee.holds():
            raise ValueError(
                f"Compressed: needs δ + C·β_G + rounding below 1/4, got {float(self.guarantee.total_error):.3g}; "
                f"lower the local epsilon."
            )
        object.__setattr__(self, "epsilon", self.seed_guarantee.replacement_epsilon)

    @classmethod
    def accepts(cls, randomizer: Any) -> bool:
        """Returns True if an object is a mechanism with a proposal law, which can be compressed.

        Args:
            randomizer: The object.
        """
        return isinstance(randomizer, Mechanism) and randomizer.proposal is not None

    @cached_property
    def inner_proposal(self) -> Proposal:
        """The randomizer's proposal law."""
        proposal = self.randomizer.proposal
        assert proposal is not None, "checked by the constructor"
        return proposal

    @cached_property
    def generator(self) -> PseudorandomGenerator:
        """G, the pseudorandom generator."""
        return resolve_generator("Compressed", self.prg)

    @cached_property
    def tries(self) -> int:
        """J, the number of seeds that are tried before a fresh one is sent."""
        with precision(128):
            budget = arb(self.inner_proposal.ratio) * -arb(self.gamma).log()
            return math.ceil(round_up(budget / (1 - arb(self._base_guarantee.deletion_delta))))

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name on the command line and in the catalogue."""
        return f"{NAME_PREFIX}-{self.randomizer.name}"

    def settings(self) -> dict[str, Any]:
        """Returns the randomizer's settings and its own, from which the catalogue rebuilds it by name."""
        return {**self.randomizer.settings(), "gamma": self.gamma, "prg": self.generator.name}

    # --- Parts ---

    @cached_property
    def domain(self) -> WrappedDomain:
        return WrappedDomain("Compressed", self.randomizer.domain)

    @cached_property
    def law(self) -> SeedLaw:
        return SeedLaw("Compressed", self.guarantee, self.randomizer.law)

    @cached_property
    def encoding(self) -> SeedEncoding:
        return SeedEncoding("Compressed", self.generator.seed_bits)

    @cached_property
    def expansion(self) -> SeedExpansion:
        """The expansion of seeds to messages."""
        return SeedExpansion(self.inner_proposal, self.generator)

    @cached_property
    def estimator(self) -> SeedEstimator:
        return SeedEstimator(self.encoding, self.expansion, self.randomizer.estimator)

    # --- Guarantee ---

    @cached_property
    def _base_guarantee(self) -> ReplaceDeleteGuarantee:
        """The guarantees of the randomizer."""
        proposal = self.inner_proposal
        if isinstance(proposal, ApproximateProposal):
            # Ratios are capped at C, which determines the deletion ε of the capped law.
            deletion = max(proposal.deletion_epsilon, _log_rounded_up(proposal.ratio))
            return ReplaceDeleteGuarantee(
                proposal.replacement_epsilon, proposal.replacement_delta, deletion, proposal.deletion_delta
            )
        replacement = _log_rounded_up(self.randomizer.variation_ratio().largest_ratio)
        return ReplaceDeleteGuarantee(replacement, 0.0, proposal.deletion_epsilon, 0.0)

    @cached_property
    def guarantee(self) -> SeedGuarantee:
        """The derivation of the seeds' guarantees from those of the randomizer."""
        proposal = self.inner_proposal
        return SeedGuarantee(
            proposal.ratio, proposal.min_ratio, self.tries, self.gamma, self.generator.advantage,
            proposal.acceptance_error, proposal.rounding, self._base_guarantee,
        )  # fmt: skip

    @property
    def has_tails(self) -> bool:
        """True if the seeds are private only up to δ."""
        return not self.guarantee.is_pure

    def truncate_tails(self, share: float) -> TruncatedRandomizer | None:
        """Returns a truncated randomizer with only the (ε, δ) guarantee of the seeds; None if δ is too large for ε."""
        delta = self.seed_guarantee.replacement_delta
        if delta > ApproximateLDP.largest_delta(self.epsilon):
            return None
        return ApproximateLDP(self.epsilon, delta).truncate_tails(share)

    @property
    def local_epsilon(self) -> float | None:
        """The local guarantee; None if a seed alone is private only up to δ."""
        return self.epsilon if self.guarantee.is_pure else None

    @property
    def seed_guarantee(self) -> ReplaceDeleteGuarantee:
        """The guarantees of the transmitted seeds, under the `assumption`."""
        return self.guarantee.seed_guarantee

    @property
    def assumption(self) -> str:
        """The assumption of the guarantees, in words, and the guarantee that remains without it."""
        return self.describe_assumption(1)

    def describe_assumption(self, seeds: int) -> str:
        """Returns the assumption for a report of several seeds, in one or two sentences.

        Args:
            seeds: Number of seeds.
        """
        fallback, sentence = self.guarantee.unconditional_guarantee, f"Assumes that {self.generator.assumption}"
        if fallback is None:
            return sentence
        rounded_up = math.ceil(seeds * Fraction(fallback.replacement_epsilon) * 1000) / 1000
        return (
            f"{sentence} Whatever the generator is, replacing a value changes no probability of a report by more than "
            f"e^{rounded_up:g}."
        )

    @property
    def total_variation(self) -> float:
        """The distance of the law of the expanded messages from the randomizer's, under the `assumption`."""
        return self.guarantee.total_variation

    # --- Running the mechanism ---

    @property
    def expected_random_words(self) -> float:
        return float(self.inner_proposal.ratio * self.inner_proposal.word_count)

    @property
    def expected_steps(self) -> float:
        """The approximate mean number of steps that a client takes to find a seed."""
        return float(self.inner_proposal.ratio * self.inner_proposal.step_count)

    @property
    def task(self) -> str:  # type: ignore[override]
        """The estimated quantity."""
        return str(self.randomizer.task)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one seed per user, a row of bytes."""
        values = self.inner_proposal.draw_latent_inputs(values, source)
        # Users who run out of tries send the seed drawn here, which was never tried.
        seeds = self._draw_seeds(len(values), source)
        waiting, tried = np.arange(len(values)), 0
        while waiting.size and tried < self.tries:
            # One try for everyone; the last few users get several at once, but hardly more than they need.
            several = min(self.expansion.block_rows // waiting.size, math.ceil(self.inner_proposal.ratio))
            count = min(max(1, several), self.tries - tried)
            drawn = self._draw_seeds(waiting.size * count, source)
            users = np.repeat(waiting, count)
            accepted = self._accept(values, users, drawn, source).reshape(-1, count)
            successful, first = accepted.any(axis=1), accepted.argmax(axis=1)
            seeds[waiting[successful]] = drawn.reshape(len(waiting), count, -1)[successful, first[successful]]
            waiting, tried = waiting[~successful], tried + count
        return seeds

    def _draw_seeds(self, count: int, source: RandomSource) -> Seeds:
        """Draws uniform seeds."""
        words = -(-self.generator.seed_bytes // 8)
        rows = source.words(count * words).view(np.uint8).reshape(count, 8 * words)
        return np.ascontiguousarray(rows[:, : self.generator.seed_bytes])

    def _accept(self, values: Array, users: Array, seeds: Seeds, source: RandomSource) -> NDArray[np.bool_]:
        """Returns which seeds are accepted for the values of their users."""
        parts = [
            _draw_booleans(self.inner_proposal.acceptance(values[users[rows]], messages), source)
            for rows, messages in self.expansion.expand_blocks(seeds)
        ]
        return np.concatenate(parts)

    def expand(self, messages: Array) -> Array:
        """Returns the randomizer's messages for which the seeds stand.

        Args:
            messages: The seeds, one row per message.

        Raises:
            ValueError: If a row is not a seed.
        """
        return self.estimator.expand(messages)

    # --- Tests ---

    def table(self) -> OutputTable:
        raise ValueError(f"Compressed: 2^{self.message_bits} seeds cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[Compressed]:
        from shuffledp.mechanisms.combined.parallel import Parallel
        from shuffledp.mechanisms.combined.repeated import Repeated
        from shuffledp.mechanisms.frequency.subset_selection import Subset
        from shuffledp.mechanisms.frequency.unary_encoding import RAPPOR
        from shuffledp.mechanisms.mean.gaussian import Gaussian
        from shuffledp.mechanisms.mean.laplace import Laplace
        from shuffledp.mechanisms.metric.planar_laplace import PlanarLaplace
        from shuffledp.mechanisms.table_and_density import FromTable
        from shuffledp.mechanisms.vector.duchi_and_harmony import Duchi
        from shuffledp.mechanisms.vector.privunit_g_and_privhs import PrivHS

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


def _log_rounded_up(number: float) -> float:
    with precision(128):
        return round_up(arb(number).log())


def _draw_booleans(chances: Floats, source: RandomSource) -> NDArray[np.bool_]:
    """Draws booleans with these probabilities, rounded down to multiples of 2^-64; True if one is 1 or more."""
    words = source.words(len(chances))
    certain = chances >= 1.0
    # A float below 1 times 2^64 is below 2^64, and exact.
    thresholds = np.where(certain, 0.0, chances * float(WORD_RANGE)).astype(np.uint64)
    return np.asarray(certain | (words < thresholds))
