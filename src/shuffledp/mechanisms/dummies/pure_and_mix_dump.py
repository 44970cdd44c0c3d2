"""The protocols pureDUMP and mixDUMP [DUMP], and uniform dummies: messages that depend on no value and hide others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.estimator import SelectedOptions
from shuffledp.mechanisms.base.law import PairLaw, dump_epsilon
from shuffledp.mechanisms.base.mechanism import HidingTable, Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import WithDummies
from shuffledp.mechanisms.base.seed_compression import log_rounded_up
from shuffledp.mechanisms.base.support_counts import (
    PairSupport,
    SupportEstimator,
    draw_response_counts,
    draw_uniform_counts,
)
from shuffledp.numerics.ball_arithmetic import float_above, to_rational
from shuffledp.privacy.dominating_pairs import ExactClass, HidingPair, exact_pair
from shuffledp.privacy.randomizer_interface import HasNoisyMessages, HasPublishedGuarantee
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling import random_sources
from shuffledp.sampling.random_sources import RandomSource

USERS_AT_ONCE = 1 << 14
"""Users encoded at a time, so that the working arrays stay in the processor's cache."""
MAX_TABLE_REPORTS = 1 << 14
MAX_DUMMIES = 1_000_000

TUNABLE_DUMMIES = TunableParameter("dummies", True, True, 1, MAX_DUMMIES)
TUNABLE_SHARE = TunableParameter("share", False, True, 2.0**-40, 1.0)

MAX_PLANNED_DUMMIES = 1 << 10
"""Largest number of dummies per user that plans compare."""


def iterate_dummy_counts() -> Iterator[dict[str, Any]]:
    """Yields the numbers of dummies that plans compare if another setting is searched: powers of two."""
    yield from ({"dummies": 1 << power} for power in range(MAX_PLANNED_DUMMIES.bit_length()))


def check_share(who: str, name: str, value: Any) -> float:
    """Returns a share above 0 and at most 1; raises ValueError for other numbers."""
    share = validation.real(who, name, value)
    if not 0 < share <= 1:
        raise ValueError(f"{who}: {name} must be above 0 and at most 1, got {share!r}.")
    return share


@dataclass(frozen=True)
class MessageTable:
    """Laws of single messages: of the one that depends on the value, a row per input, and of a dummy.

    Args:
        messages: The different messages, one per column.
        rows: Law of the real message for each input.
        dummy: Law of a dummy.
    """

    messages: Array
    rows: tuple[tuple[Fraction, ...], ...]
    dummy: tuple[Fraction, ...]

    def build_hiding_table(self) -> HidingTable:
        """Returns the laws as the table of revealing and hiding messages."""
        return HidingTable(self.rows, self.dummy)

    def build_output_table(self, who: str, dummies: int) -> OutputTable:
        """Returns the law of all messages of a user; the inputs are options.

        Args:
            who: Name that begins error messages.
            dummies: Dummies of each user.

        Returns:
            The exact output law.

        Raises:
            ValueError: If there are too many reports to write down.
        """
        if len(self.messages) ** (1 + dummies) > MAX_TABLE_REPORTS:
            raise ValueError(f"{who}: a table needs fewer messages or dummies.")
        reports = list(product(range(len(self.messages)), repeat=1 + dummies))
        hidden = [prod((self.dummy[k] for k in later), start=Fraction(1)) for _, *later in reports]
        rows = tuple(
            tuple(row[report[0]] * chance for report, chance in zip(reports, hidden, strict=True)) for row in self.rows
        )
        return OutputTable(np.arange(len(rows)), self.messages[np.array(reports)], rows)


@dataclass(frozen=True)
class UniformDummies:
    """Uniform dummies: messages are numbers below `kinds`, and a dummy is uniform or blank.

    A blank is one more message, which no real message ever is. So the number of messages stays fixed, and with less
    than one filled dummy per user on average the law of a hiding message is `filled` times that of a filled dummy.

    Args:
        count: Dummies of each user.
        kinds: Number of different filled messages.
        filled: Executed probability that a dummy is not blank.
    """

    count: int
    kinds: int
    filled: Fraction

    @classmethod
    def from_share(cls, count: int, kinds: int, share: float) -> UniformDummies:
        """Returns the dummies for a share of filled ones, rounded up to a multiple of 2^-64, which only hides more."""
        return cls(count, kinds, random_sources.round_up_fraction(Fraction(share)))

    @property
    def has_blank(self) -> bool:
        """True if a dummy may be blank."""
        return self.filled < 1

    @property
    def outputs(self) -> int:
        """The number of different messages, the blank included."""
        return self.kinds + self.has_blank

    def add_dummies(self, real: Callable[[Array, RandomSource], Array], values: Array, source: RandomSource) -> Array:
        """Returns all messages: for each user the one that `real` draws for the value, then the dummies.

        Args:
            real: Function that draws the real messages of values.
            values: Values in canonical form.
            source: Source of randomness.

        Returns:
            The messages, those of one user next to each other.
        """
        messages = np.empty((len(values), 1 + self.count), dtype=np.int64)
        step = max(1, USERS_AT_ONCE // (1 + self.count))
        for start in range(0, len(values), step):
            own = values[start : start + step]
            part = messages[start : start + step]
            part[:, 0] = real(own, source)
            dummies = source.integers_below(self.kinds, len(own) * self.count)
            if self.has_blank:
                dummies[~source.coins(self.filled, len(dummies))] = self.kinds
            part[:, 1:] = dummies.reshape(len(own), self.count)
        return messages.reshape(-1)

    def classes(self, laws: Sequence[tuple[Fraction, Fraction, Fraction]]) -> list[ExactClass]:
        """Returns (first, second, probability of a filled dummy) as classes against dummies that may be blank."""
        return [
            (to_rational(first), to_rational(second), to_rational(chance * self.filled))
            for first, second, chance in laws
        ]

    def build_message_table(self, rows: tuple[tuple[Fraction, ...], ...]) -> MessageTable:
        """Adds the blank, if there is one, as a last column to the laws of filled messages."""
        dummy = (self.filled / self.kinds,) * self.kinds
        if self.has_blank:
            rows, dummy = tuple((*row, Fraction(0)) for row in rows), (*dummy, 1 - self.filled)
        return MessageTable(np.arange(len(dummy)), rows, dummy)


@dataclass(frozen=True)
class SupportAmongDummiesEstimator(SupportEstimator):
    """Estimator of support counts among dummies, each of which supports a given option with one probability.

    Args:
        options: Number of options.
        true_support: s, the probability that a real message supports its user's option.
        false_support: r, the probability that it supports any other given option.
        dummies: Dummies of each user.
        dummy_support: Probability that a dummy supports a given option.
    """

    dummy_mean: Fraction = field(init=False)
    dummy_variance: Fraction = field(init=False)
    dummies: int
    dummy_support: Fraction

    def __post_init__(self) -> None:
        mean = self.dummies * self.dummy_support
        object.__setattr__(self, "dummy_mean", mean)
        object.__setattr__(self, "dummy_variance", mean * (1 - self.dummy_support))

    @property
    def dummy_third_cumulant(self) -> Fraction:
        return self.dummy_variance * (1 - 2 * self.dummy_support)

    def draw_dummies(self, users: int, options: int, rng: np.random.Generator) -> Integers:
        return np.asarray(rng.binomial(users * self.dummies, float(self.dummy_support), options))


@dataclass(frozen=True)
class OptionCountAmongDummiesEstimator(SupportAmongDummiesEstimator):
    """Estimator for messages that are options or blank; the real one is uniform with probability γ, else the own one.

    Args:
        options: Number of options.
        true_support: s, the probability that a real message supports its user's option.
        false_support: r, the probability that it supports any other given option.
        dummies: Dummies of each user.
        dummy_support: Probability that a dummy supports a given option.
        uniform_share: γ.
        filled: Probability that a dummy is not blank.
    """

    uniform_share: Fraction
    filled: Fraction

    @classmethod
    def from_dummies(cls, dummies: UniformDummies, uniform_share: Fraction) -> OptionCountAmongDummiesEstimator:
        """Returns the estimator for these dummies and this γ."""
        options, filled = dummies.kinds, dummies.filled
        other = uniform_share / options
        return cls(options, 1 - uniform_share + other, other, dummies.count, filled / options, uniform_share, filled)

    def accumulate(self, messages: Array) -> Array:
        return np.bincount(messages, minlength=self.options + 1)[: self.options]

    def count_supports(self, messages: Array, selection: SelectedOptions) -> Integers:
        return selection.counts(messages)

    @property
    def pair_support(self) -> PairSupport:
        """The joint support probabilities: a message, and so a dummy, supports at most one option."""
        return PairSupport(Fraction(0), Fraction(0), -self.dummies * self.dummy_support**2)

    @property
    def has_joint_simulation(self) -> bool:
        return True

    def draw_supports(self, held: Integers, users: int, rng: np.random.Generator) -> Integers:
        real = draw_response_counts(held, users, float(self.uniform_share), rng)
        # Filled dummies are uniform options.
        filled = int(rng.binomial(users * self.dummies, float(self.filled)))
        return real + draw_uniform_counts(filled, self.options, rng)

    def real_rows(self) -> tuple[tuple[Fraction, ...], ...]:
        """Returns the exact law of the real message: a row per option held, a column per option sent."""
        every = range(self.options)
        return tuple(tuple(self.true_support if x == y else self.false_support for y in every) for x in every)


# --- mixDUMP ---


PLANNED_LOCAL_EPSILON = 8.0
"""Local ε of a report in plans."""


@dataclass(frozen=True)
class MixDUMP(Mechanism, HasNoisyMessages, HasPublishedGuarantee):
    """Randomized response on the option among uniform dummies (mixDUMP).

    The true option is sent with probability 1 − f and any other one with f/(d−1). Executed as: a uniform option with
    probability γ = f·d/(d−1), rounded up to a multiple of 2^-64 (which only hides more), else the true one.

    All messages of a user together have the local ε log(1 + d·(1−γ)/γ), a weak guarantee if f is tiny.

    Theorem: identity (★) with the uniform law of the dummies, M − 1 = (honest users)·dummies.
    [VR] Table 3, mixDUMP: p = (1−f)(d−1)/f, β = 1 − f − f/(d−1), q = (1−f)d; q_common = max(1, f·d/(d−1)).
    Requires: d ≥ 2; 0 < f < (d−1)/d; dummies ≥ 1; 0 < share ≤ 1.
    Returns: an upper bound: the additional hiding by the others' own randomness is counted by ``RandomBlanketBound``
        only.

    Args:
        options: d, the number of options; a user's value is the number of one of them, from 0.
        flip: f, the probability that the user's own message is another option.
        dummies: Uniform options that each user adds.
        share: Probability that a dummy is filled and not blank.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.MixDUMP(options=16, flip=0.2, dummies=3)
        >>> mechanism.messages_per_user
        4
        >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
        '0.0895'
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    flip: float = field(metadata=checked(validation.open_probability))
    dummies: int = field(default=1, metadata=checked(validation.count, at_most=MAX_DUMMIES))
    share: float = field(default=1.0, metadata=checked(check_share))

    name = "mix-dump"
    task = "frequency"
    summary = "randomized response on the option, and uniform dummies"
    use_case = "For counts with dummies that keep a local ε as well."
    aliases = ("mixdump",)
    tunable = (TunableParameter("flip", False, True, 2.0**-60, 1.0), TUNABLE_DUMMIES, TUNABLE_SHARE)
    published_theorem = (
        "pureDUMP's analysis [DUMP], of which mixDUMP is a post-processing: ε = √(14·d·log(2/δ)/dummies)"
    )

    @classmethod
    def variants(cls, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields numbers of dummies with the flips of local ε `PLANNED_LOCAL_EPSILON`; `facts` must contain `options`.

        Without flips the protocol is `PureDUMP`.
        """
        others = facts["options"] - 1
        flip = others / (math.exp(PLANNED_LOCAL_EPSILON) + others)
        return ({**dummies, "flip": flip} for dummies in iterate_dummy_counts())

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.uniform_share >= 1:
            most = 1 - 1 / self.options
            raise ValueError(f"MixDUMP: flip must be below 1 − 1/options = {most:.6g}, got {self.flip!r}.")

    @cached_property
    def uniform_share(self) -> Fraction:
        """γ: the probability of sending a uniform option in place of the true one."""
        return random_sources.round_up_fraction(Fraction(self.flip) * self.options / (self.options - 1))

    @cached_property
    def dummy_law(self) -> UniformDummies:
        """The dummies that hide the option."""
        return UniformDummies.from_share(self.dummies, self.options, self.share)

    @cached_property
    def law(self) -> PairLaw:
        """The law; in its attack the others' options, and so their messages, are uniform, and blanks hide, too."""
        hidden, attacked = self._pair(self.dummy_law.filled), self._pair(Fraction(1))
        return PairLaw(self._parameters(), (hidden,), attack_pairs=(attacked,), tight=True)

    def _parameters(self) -> VariationRatio:
        own, other, each = (
            self.estimator.true_support,
            self.estimator.false_support,
            self.dummy_law.filled / self.options,
        )
        p, common = float_above(own / other), float_above(max(Fraction(1), other / each))
        # If p is slightly above the ratio, the pair also differs on a small part of the common mass.
        excess = other - (own - other) / (Fraction(p) - 1)
        q = (own - excess) / (each - excess / Fraction(common))
        return VariationRatio(p=p, beta=float_above(own - other), q=float_above(q), q_common=common)

    def _pair(self, filled: Fraction) -> HidingPair:
        own, other, each = self.estimator.true_support, self.estimator.false_support, filled / self.options
        rest = self.options - 2
        laws = [(own, other, each), (other, own, each), (rest * other, rest * other, rest * each)]
        return exact_pair([(to_rational(a), to_rational(b), to_rational(c)) for a, b, c in laws], symmetric=True)

    @property
    def local_epsilon(self) -> float:
        """The local guarantee of all messages of a user: randomized response; dummies depend on no value."""
        return log_rounded_up(self.estimator.true_support / self.estimator.false_support)

    @cached_property
    def estimator(self) -> OptionCountAmongDummiesEstimator:
        return OptionCountAmongDummiesEstimator.from_dummies(self.dummy_law, self.uniform_share)

    def _draw_real_messages(self, values: Array, source: RandomSource) -> Array:
        drawn = source.integers_below(self.options, len(values))
        np.copyto(drawn, values, where=~source.coins(self.uniform_share, len(values)))
        return drawn

    def count_noisy_messages(self, messages: int) -> tuple[int, Fraction]:
        """Returns how many real messages others sent, and γ, the probability that one is uniform whatever the option.

        A filled dummy hides as well or better.
        """
        return self.message_plan.other_user_count(messages), self.uniform_share

    def attack_messages(self, users: int) -> int:
        """Returns how many messages hide each other in the datasets of `attacks`, where real messages hide, too."""
        return users * self.message_plan.messages_per_user

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """Returns the ε of the published analysis, as printed.

        Raises:
            NotApplicable: If some dummies are blank, or ε exceeds 1.
        """
        return dump_epsilon(self.options, self.share, messages, delta)

    def message_table(self) -> MessageTable:
        """Returns the exact laws of single messages, for small instances."""
        return self.dummy_law.build_message_table(self.estimator.real_rows())

    @cached_property
    def domain(self) -> Category:
        return Category("MixDUMP", self.options)

    @property
    def message_plan(self) -> WithDummies:
        return WithDummies(self.dummies)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("MixDUMP", self.dummy_law.outputs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummy_law.add_dummies(self._draw_real_messages, values, source)

    def hiding_table(self) -> HidingTable:
        return self.message_table().build_hiding_table()

    def table(self) -> OutputTable:
        return self.message_table().build_output_table("MixDUMP", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[MixDUMP]:
        return [
            cls(options=2, flip=0.25),
            cls(options=3, flip=0.4, dummies=2),
            cls(options=4, flip=0.1, dummies=1, share=0.6),
        ]


# --- pureDUMP ---


@dataclass(frozen=True)
class PureDUMP(Mechanism, HasPublishedGuarantee):
    """The true option in the clear among uniform dummies (pureDUMP).

    All draws are exactly uniform. There is no local ε: the user's own message is in the clear, and hides only among the
    dummies.

    Theorem: identity (★), exact: the others' options are known and can be subtracted from the counts, which leaves the
    victim's among M − 1 = (honest users)·dummies uniform ones. [VR] Table 3, pureDUMP: p = ∞, β = 1, q = d.
    Requires: d ≥ 2; dummies ≥ 1; 0 < share ≤ 1.

    Args:
        options: d, the number of options; a user's value is the number of one of them, from 0.
        dummies: Uniform options that each user adds.
        share: Probability that a dummy is filled and not blank.

    Raises:
        TypeError: If an argument is not a number.
        ValueError: If an argument is outside its range.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.PureDUMP(options=16, dummies=3)
        >>> mechanism.messages_per_user
        4
        >>> sdp.amplify(mechanism, users=10_000).messages
        30001
        >>> found = sdp.calibrate(sdp.PureDUMP, find="dummies", options=16, users=10_000, epsilon=0.2, delta=1e-6)
        >>> found.value, f"{found.epsilon.upper:.4f}"
        (2, '0.1494')
    """

    options: int = field(metadata=checked(validation.count, at_least=2))
    dummies: int = field(default=1, metadata=checked(validation.count, at_most=MAX_DUMMIES))
    share: float = field(default=1.0, metadata=checked(check_share))

    name = "pure-dump"
    task = "frequency"
    summary = "the true option and uniform dummies; private only among many users"
    use_case = "For counts by dummies, where the shuffler is trusted."
    aliases = ("puredump", "dump")
    tunable = (TUNABLE_DUMMIES, TUNABLE_SHARE)
    published_theorem = "pureDUMP's own analysis [DUMP]: ε = √(14·d·log(2/δ)/dummies), ε ≤ 1"

    @cached_property
    def dummy_law(self) -> UniformDummies:
        """The dummies that hide the option."""
        return UniformDummies.from_share(self.dummies, self.options, self.share)

    @cached_property
    def law(self) -> PairLaw:
        """The law; every dataset is an attack, because an attacker who knows the others' options subtracts them."""
        one, none, each = Fraction(1), Fraction(0), Fraction(1, self.options)
        parameters = VariationRatio(p=inf, beta=1.0, q=float_above(self.options / self.dummy_law.filled))
        hidden = exact_pair(self.dummy_law.classes([(one, none, each), (none, one, each)]), symmetric=True)
        return PairLaw(parameters, (hidden,), attack_pairs=(hidden,), tight=True)

    @cached_property
    def estimator(self) -> OptionCountAmongDummiesEstimator:
        return OptionCountAmongDummiesEstimator.from_dummies(self.dummy_law, uniform_share=Fraction(0))

    def _draw_real_messages(self, values: Array, source: RandomSource) -> Array:
        del source
        return values

    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """Returns the ε of the published analysis, as printed.

        Raises:
            NotApplicable: If some dummies are blank, or ε exceeds 1.
        """
        return dump_epsilon(self.options, self.share, messages, delta)

    def message_table(self) -> MessageTable:
        """Returns the exact laws of single messages, for small instances."""
        return self.dummy_law.build_message_table(self.estimator.real_rows())

    @cached_property
    def domain(self) -> Category:
        return Category("PureDUMP", self.options)

    @property
    def message_plan(self) -> WithDummies:
        return WithDummies(self.dummies)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding("PureDUMP", self.dummy_law.outputs)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.dummy_law.add_dummies(self._draw_real_messages, values, source)

    def hiding_table(self) -> HidingTable:
        return self.message_table().build_hiding_table()

    def table(self) -> OutputTable:
        return self.message_table().build_output_table("PureDUMP", self.dummies)

    @classmethod
    def examples(cls) -> Sequence[PureDUMP]:
        return [cls(options=2), cls(options=3, dummies=2), cls(options=4, dummies=1, share=0.3)]
