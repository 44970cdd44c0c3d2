"""Cancelling noise for counts: users send their true option, and together add noise most of which cancels.

Here are the sampler of one user's share, the estimator and the mechanism ``CancellingNoise``; its exact privacy loss is
in ``cancelling_noise_loss.py``, the choice of its parameters in ``cancelling_noise_design.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from flint import arb

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, Integers, checked
from shuffledp.mechanisms.base.domain import Category
from shuffledp.mechanisms.base.encoding import WholeNumberEncoding
from shuffledp.mechanisms.base.error_laws import NegativeBinomialErrorLaw
from shuffledp.mechanisms.base.estimator import (
    Estimate,
    Estimator,
    Influence,
    SelectedOptions,
    SelectedOptionsEstimator,
    SimulableEstimator,
)
from shuffledp.mechanisms.base.law import AggregateNoiseLaw
from shuffledp.mechanisms.base.mechanism import Mechanism, OutputTable, TunableParameter
from shuffledp.mechanisms.base.message_plan import SharedNoise
from shuffledp.mechanisms.base.range_estimator import TreeEstimator
from shuffledp.mechanisms.base.value_tree import ValueTree
from shuffledp.mechanisms.correlated_noise.cancelling_noise_design import design_noise
from shuffledp.mechanisms.correlated_noise.cancelling_noise_loss import (
    PRECISION_BITS,
    CancellingNoiseLaw,
    CancellingNoiseLoss,
)
from shuffledp.mechanisms.dummies.poisson_dummies import check_positive
from shuffledp.numerics.ball_arithmetic import precision, round_up, to_rational
from shuffledp.privacy.aggregate_noise import AggregateNoiseLoss, ApproximateLoss, NoiseFacts
from shuffledp.privacy.randomizer_interface import HasAggregateLoss
from shuffledp.sampling.noise import ChoiceLaw, LogarithmicLaw, PoissonLaw
from shuffledp.sampling.random_sources import RandomSource

# --- A user's share of the noise: a few clusters of messages, in time independent of the number of options ---


MAX_MEAN = 32
"""Largest mean of a Poisson number drawn at once; larger ones are sums of smaller ones."""
CLUSTER_FOR, CLUSTER_AGAINST, CLUSTER_BOTH = 0, 1, 2
"""Kinds of clusters: messages for the option, against it, or equally many of both."""


@dataclass(frozen=True)
class NoiseShare:
    """The share ``part`` of the noise of all ``options``, as messages 2·option (for) and 2·option + 1 (against).

    A negative binomial number of shape a and ratio s is the total size of a Poisson number of clusters, of mean
    −a·log(1−s), with logarithmic sizes. So the noise of all options is one Poisson number of clusters, each of one of
    three kinds, with a uniform option and a size.
    """

    noise: CancellingNoiseLaw
    options: int
    part: Fraction

    # --- laws ---

    def cluster_rate(self) -> arb:
        """Returns the mean number of clusters."""
        return 2 * self._single_rate() + self._pair_rate()

    def _single_rate(self) -> arb:
        """Returns the mean number of clusters of X over all options; Y has the same."""
        return -arb(to_rational(self.part * self.options)) * (1 - self.noise.geometric_ball()).log()

    def _pair_rate(self) -> arb:
        """Returns the mean number of clusters of F over all options."""
        shape = Fraction(self.noise.shape) * self.part * self.options
        return -arb(to_rational(shape)) * (1 - self.noise.ratio_ball()).log()

    @cached_property
    def messages(self) -> float:
        """Mean number of messages."""
        q, s = math.exp(-self.noise.rate), self.noise.ratio
        each = 2 * q / (1 - q) + 2 * self.noise.shape * s / (1 - s)
        return float(self.part * self.options) * each

    @cached_property
    def _kind_law(self) -> ChoiceLaw:
        return ChoiceLaw((self._single_rate, self._single_rate, self._pair_rate))

    @cached_property
    def _size_laws(self) -> tuple[LogarithmicLaw, LogarithmicLaw]:
        return LogarithmicLaw(self.noise.geometric_ball), LogarithmicLaw(self.noise.ratio_ball)

    # --- sampling ---

    def draw(self, source: RandomSource, users: int) -> Integers:
        """Draws the shares of ``users`` users, in no particular order of messages.

        Poisson numbers of clusters add up to a Poisson number, so one is drawn for all users.
        """
        number = ClusterCount(self, users)
        kinds, options, sizes = self._draw_clusters(source, int(number.draw(source, 1)[0]))
        both = kinds == CLUSTER_BOTH
        pairs = np.repeat(2 * options[both], sizes[both])
        single = np.repeat((2 * options + kinds)[~both], sizes[~both])
        return np.concatenate([pairs, pairs + 1, single])

    def draw_by_user(self, source: RandomSource, users: int) -> tuple[Integers, Integers]:
        """Draws the shares of ``users`` users; returns the owner of each message, and the messages."""
        owners = np.repeat(np.arange(users), ClusterCount(self, 1).draw(source, users))
        kinds, options, sizes = self._draw_clusters(source, len(owners))
        both = kinds == CLUSTER_BOTH
        pairs, pair_owners = np.repeat(2 * options[both], sizes[both]), np.repeat(owners[both], sizes[both])
        single = np.repeat((2 * options + kinds)[~both], sizes[~both])
        message_owners = np.concatenate([pair_owners, pair_owners, np.repeat(owners[~both], sizes[~both])])
        return message_owners, np.concatenate([pairs, pairs + 1, single])

    def _draw_clusters(self, source: RandomSource, count: int) -> tuple[Integers, Integers, Integers]:
        """Returns the kinds, options and sizes of ``count`` clusters."""
        kinds, options = self._kind_law.draw(source, count), source.integers_below(self.options, count)
        sizes, both = np.empty(count, dtype=np.int64), kinds == CLUSTER_BOTH
        pair_clusters = int(np.count_nonzero(both))
        sizes[both] = self._size_laws[1].draw(source, pair_clusters)
        sizes[~both] = self._size_laws[0].draw(source, count - pair_clusters)
        return kinds, options, sizes

    # --- tail of the number of messages ---

    def overflow_probability(self, messages: int) -> arb:
        """Returns the probability that one share has more than this many messages, as a ball."""
        single, pairs = self._single_rate(), self._pair_rate()
        q, s = self.noise.geometric_ball(), self.noise.ratio_ball()
        # n·P(n) = Σ_j j·λ_j·P(n − j) for a Poisson number of clusters with a mean of λ_j clusters of size j.
        sized: list[arb] = [arb(0)]
        for j in range(1, messages + 1):
            both = pairs * s ** (j // 2) / ((j // 2) * -(1 - s).log()) if j % 2 == 0 else arb(0)
            sized.append(j * (2 * single * q**j / (j * -(1 - q).log()) + both))
        chances = [(-(2 * single + pairs)).exp()]
        for n in range(1, messages + 1):
            chances.append(sum((sized[j] * chances[n - j] for j in range(1, n + 1)), arb(0)) / n)
        return 1 - sum(chances, arb(0))


@dataclass(frozen=True)
class ClusterCount:
    """The Poisson number of clusters of ``users`` users together, as a sum of Poisson numbers of small mean."""

    share: NoiseShare
    users: int

    def draw(self, source: RandomSource, count: int) -> Integers:
        """Draws ``count`` independent numbers."""
        law, pieces = _split_poisson(self)
        drawn = law.draw(source, count * pieces)
        return drawn if pieces == 1 else np.asarray(drawn.reshape(count, pieces).sum(axis=1))


@dataclass(frozen=True)
class _PieceRate:
    """The mean of one of ``pieces`` equal summands."""

    number: ClusterCount
    pieces: int

    def __call__(self) -> arb:
        return self.number.share.cluster_rate() * self.number.users / self.pieces


@lru_cache(maxsize=64)
def _split_poisson(number: ClusterCount) -> tuple[PoissonLaw, int]:
    """Returns the law of one summand, and the number of summands."""
    mean = float(number.share.cluster_rate()) * number.users
    pieces = max(1, math.ceil(mean / MAX_MEAN))
    return PoissonLaw(_PieceRate(number, pieces)), pieces


# --- Estimator ---


@dataclass(frozen=True)
class SignedCountsEstimator(SimulableEstimator, TreeEstimator):
    """Estimates the count of each option by the messages for it minus those against it.

    The error of an option is X − Y, of variance 2q/(1−q)² times the multiple of the planned noise that is present. If
    every user holds one option (``has_single_option``), the sum of all counts is known, which removes 1/options of the
    variance.
    """

    options: int
    noise: CancellingNoiseLaw
    honest: int
    has_single_option: bool = True

    def accumulate(self, messages: Array) -> Array:
        counts = np.bincount(messages, minlength=2 * self.options)[: 2 * self.options].reshape(self.options, 2)
        return np.asarray(counts[:, 0] - counts[:, 1])

    def influence(self, messages: float) -> tuple[Influence, ...]:
        """Returns the influence of a user whose messages are all for one option or all against it.

        The correction of the known total spreads the surplus evenly over all options.
        """
        if math.isinf(messages):
            return (Influence(-math.inf, math.inf),)
        share, known = self.remaining_variance_share, 1 - self.remaining_variance_share
        return (Influence(known - messages * share, known + messages * share),)

    def finish(self, total: Array, users: int) -> Estimate:
        value = np.asarray(total, dtype=np.float64)
        return self.from_counts(value, value.sum(), users)

    def from_counts(self, counts: Floats, total: float, users: int) -> Estimate:
        """Returns the estimate of some options, given the ``total`` of the counts of all options."""
        value = counts + (users - total) / self.options if self.has_single_option else counts
        variance = np.full(len(value), self.option_variance(users))
        tails = NegativeBinomialErrorLaw(
            self._noise_multiple(users), self.noise.rate, self.options if self.has_single_option else None
        )
        return Estimate(value, variance, users, tails)

    @property
    def option_count(self) -> int:
        return self.options

    def select(self, selection: SelectedOptions) -> Estimator:
        return SelectedSignedCountsEstimator(self, selection)

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        return self.finish(held + self.draw_noise(users, self.options, rng), users)

    def draw_noise(self, users: int, numbers: int, rng: np.random.Generator, together: int = 1) -> Integers:
        """Draws ``numbers`` values, each the X − Y of ``together`` options."""
        stop = -math.expm1(-self.noise.rate)
        counts = [rng.negative_binomial(together * self._noise_multiple(users), stop, numbers) for _ in range(2)]
        return np.asarray(counts[0] - counts[1])

    def truth(self, values: Array) -> Floats:
        held = values.reshape(-1)
        return np.bincount(held[held >= 0], minlength=self.options).astype(np.float64)

    def variance(self, values: Array) -> Floats:
        return np.full(self.options, self.option_variance(len(values)))

    @cached_property
    def tree(self) -> ValueTree:  # type: ignore[override]
        return ValueTree(self.options, self.options)

    @property
    def has_known_covariances(self) -> bool:
        return self.has_single_option

    def combined_variance(self, weights: Floats, held: Floats, users: int) -> Floats:
        """Returns the variance for independent noise; the known total removes the mean of the weights."""
        del held
        alone = self.option_variance(users) / self.remaining_variance_share
        return np.asarray(alone * ((weights**2).sum(axis=-1) - weights.sum(axis=-1) ** 2 / self.options))

    def _noise_multiple(self, users: float) -> float:
        """Returns the multiple of the planned noise that is present: 1 from the shuffler, else users/honest."""
        return 1.0 if self.honest == 0 else users / self.honest

    def option_variance(self, users: float) -> float:
        """Returns the variance of the estimate of one option."""
        ratio, stop = math.exp(-self.noise.rate), -math.expm1(-self.noise.rate)
        return self._noise_multiple(users) * 2 * ratio / stop**2 * self.remaining_variance_share

    @property
    def remaining_variance_share(self) -> float:
        """Share of an option's variance that remains once the sum of all counts is corrected."""
        return 1 - 1 / self.options if self.has_single_option else 1.0


@dataclass(frozen=True)
class SelectedSignedCountsEstimator(SelectedOptionsEstimator):
    """Estimates the selected options; the statistic ends with the sum of the counts of all options."""

    full_estimator: SignedCountsEstimator
    selection: SelectedOptions

    def accumulate(self, messages: Array) -> Array:
        options, against = np.divmod(messages, 2)
        pro, contra = options[against == 0], options[against == 1]
        # A blank is numbered after the two messages of the last option and counts for none.
        all_counts = np.count_nonzero(pro < self.full_estimator.options) - len(contra)
        return np.append(self.selection.counts(pro) - self.selection.counts(contra), all_counts)

    def finish(self, total: Array, users: int) -> Estimate:
        *counts, all_counts = np.asarray(total, dtype=np.float64)
        return self.full_estimator.from_counts(np.array(counts), float(all_counts), users)

    def influence(self, messages: float) -> tuple[Influence, ...]:
        return self.full_estimator.influence(messages)

    def variance_at_counts(self, held: Floats, users: float) -> Floats:
        return np.full(len(held), self.full_estimator.option_variance(users))

    def simulate(self, held: Integers, users: int, rng: np.random.Generator) -> Estimate:
        """Draws the noise of these options, and that of all others together."""
        noise, others = self.full_estimator.draw_noise(users, len(held), rng), self.full_estimator.options - len(held)
        rest = int(self.full_estimator.draw_noise(users, 1, rng, others)[0]) if others > 0 else 0
        return self.finish(np.append(held + noise, users + noise.sum() + rest), users)


ERROR_PREFIX = "CancellingNoise"
MAX_OPTIONS = 1 << 61
MAX_PLACES = 1 << 12
MAX_RATE, MAX_SHAPE = 50.0, 1e5
PLANNED_ERRORS = (1.05, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Standard errors that plans compare, as multiples of that of a curator's Laplace noise."""
USERS_AT_ONCE = 1 << 17
"""Number of users encoded at a time."""
MAX_RATIO = 1 - 2.0**-14
"""Largest ratio: the table of cluster sizes has about 50/(1 − ratio) entries."""


TUNABLE_SHAPE = TunableParameter("shape", False, True, 0.1, 1e3)


def check_ratio(who: str, name: str, value: Any) -> float:
    """Returns a ratio of cancelling pairs; raises TypeError or ValueError otherwise."""
    ratio = validation.open_probability(who, name, value)
    if ratio > MAX_RATIO:
        raise ValueError(f"{who}: {name} must be at most {MAX_RATIO:g}, got {ratio!r}.")
    return ratio


def iterate_designs(
    sizes: dict[str, int], users: int, epsilon: float, delta: float, rounds: int, losses: int = 2
) -> Iterator[dict[str, Any]]:
    """Yields designs from least error to fewest messages, and the most accurate one also with the shuffler's noise."""
    for times in PLANNED_ERRORS:
        design = design_noise(times, epsilon, delta, rounds, losses)
        if design is not None:
            rate, pairs = design
            settings = {**sizes, "rate": rate, "shape": pairs.shape, "ratio": pairs.ratio}
            if times == PLANNED_ERRORS[0]:
                yield {**settings, "honest": 0}
            yield {**settings, "honest": users}


# --- The mechanism ---


@dataclass(frozen=True)
class CancellingNoise(Mechanism, HasAggregateLoss):
    """Sends the true option unperturbed, and all users together, or the shuffler, add messages for and against options.

    A message is (option, +) or (option, −), and an option is estimated by the first count minus the second. The noise
    of each option is X + F messages for it and Y + F against it: X and Y are geometric with ratio e^−rate, F is
    negative binomial with ``shape`` and ``ratio``. F cancels in the estimate and hides everything but the difference of
    the two counts. So the error is that of a curator with discrete Laplace noise of this rate.

    Each user adds 1/honest of the noise (all three laws are infinitely divisible): a few clusters of messages, drawn
    exactly, in time that does not depend on the number of options. With more users than ``honest`` there is more noise;
    fewer honest ones are accounted for by the exact law of the remaining noise. The number of messages varies between
    users, independently of their values. There is no local ε.

    Theorem: [GKMPS21] for binary sums; histograms and the exact loss are ours (docs/multimessage.md): a changed value
    moves two independent pairs of counts, whose losses have one-dimensional laws; both directions are equal.
    Requires: d ≥ 2; rate > 0; shape > 0; 0 < ratio < 1.

    Args:
        options: Number of options d; a user's value is an option from 0 to d − 1.
        rate: Rate b of the noise X − Y that does not cancel.
        shape: Shape of F, the messages that cancel.
        ratio: Ratio of F.
        honest: Number of honest users who add the noise together. With 0 the shuffler draws it once for all: every user
            then sends one message, and the guarantee does not depend on who takes part.
        places: If above 0, every user sends exactly this many messages: their own, their noise, and blanks, so that an
            observer of the numbers of messages learns nothing. If η is the probability that some user's noise does not
            fit, δ includes (1 + e^ε)·η.

    Raises:
        ValueError: If a parameter is out of range, or ``places`` is given with ``honest`` = 0.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.CancellingNoise(options=16, rate=0.45, shape=30, ratio=0.93, honest=10_000)
    >>> curve = sdp.amplify(mechanism, users=10_000)
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}", curve.epsilon(delta=1e-6).bound
    ('0.9711', 'own-noise')
    >>> f"{mechanism.messages_per_user:.2f}"
    '2.28'
    """

    options: int = field(metadata=checked(validation.count, at_least=2, at_most=MAX_OPTIONS))
    rate: float = field(metadata=checked(check_positive, at_most=MAX_RATE))
    shape: float = field(metadata=checked(check_positive, at_most=MAX_SHAPE))
    ratio: float = field(metadata=checked(check_ratio))
    honest: int = field(metadata=checked(validation.count, at_least=0))
    places: int = field(default=0, metadata=checked(validation.count, at_least=0, at_most=MAX_PLACES))

    name = "cancelling-noise"
    task = "frequency"
    summary = "the true option, and noise that cancels: a curator's error, private only by the shuffler"
    use_case = "For counts near a curator's error, where the shuffler is trusted and options are few beside the users."
    tunable = (TUNABLE_SHAPE,)
    has_table = False
    has_design_frontier = True
    aliases = ("gkmps", "gkmps21")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.places and self.honest == 0:
            raise ValueError(
                f"{ERROR_PREFIX}: places are for noise that users draw, got {self.places} with honest = 0; leave them "
                f"out."
            )

    @property
    def noise(self) -> CancellingNoiseLaw:
        """The law of the noise of one option if all planned users take part."""
        return CancellingNoiseLaw(self.rate, self.shape, self.ratio)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.noise, self.options, Fraction(1, max(1, self.honest)))

    @cached_property
    def domain(self) -> Category:
        return Category(ERROR_PREFIX, self.options)

    @cached_property
    def message_plan(self) -> SharedNoise:
        return SharedNoise(1, self._share.messages, self.honest, self.places)

    @cached_property
    def encoding(self) -> WholeNumberEncoding:
        return WholeNumberEncoding(ERROR_PREFIX, 2 * self.options + (1 if self.places else 0))

    @cached_property
    def estimator(self) -> SignedCountsEstimator:
        return SignedCountsEstimator(self.options, self.noise, self.honest)

    def aggregate_loss(self, honest: int) -> AggregateNoiseLoss:
        """Returns the privacy loss of all messages together.

        Users beyond the planned number only add noise, so the loss is at most that of the planned number. It is exact,
        or off by the probability that some user's noise does not fit into their ``places``.
        """
        share = Fraction(1) if self.honest == 0 else min(Fraction(1), Fraction(honest, self.honest))
        loss = CancellingNoiseLoss(CancellingNoiseLaw(self.rate, self.shape, self.ratio, share))
        if not self.places:
            return loss
        users = min(honest, self.honest)
        event, facts = "the noise of some user exceeds their places", _OverflowFacts(self._share, users, self.places)
        return ApproximateLoss(loss, self._overflow_probability(users), event, facts)

    def _overflow_probability(self, users: int) -> float:
        """Returns the probability that the noise of one of ``users`` users does not fit into their places."""
        with precision(PRECISION_BITS):
            return min(1.0, round_up(users * self._share.overflow_probability(self.places - 1)))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns the messages of all users, 2·option for and 2·option + 1 against an option.

        A user's messages are adjacent if there are ``places``.
        """
        if self.honest == 0:
            return np.asarray(2 * values)
        if self.places:
            return self._pad_messages(values, source)
        parts: list[Integers] = []
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            parts += [2 * own, self._share.draw(source, len(own))]
        return np.concatenate(parts)

    def _pad_messages(self, values: Array, source: RandomSource) -> Array:
        """Returns a row of ``places`` messages for each user: their own, their noise, blanks."""
        rows = np.full((len(values), self.places), 2 * self.options, dtype=np.int64)
        rows[:, 0] = 2 * values
        owners, noise = self._share.draw_by_user(source, len(values))
        order = np.argsort(owners, kind="stable")
        owners, noise = owners[order], noise[order]
        place = 1 + np.arange(len(owners)) - np.searchsorted(owners, owners, side="left")
        fits = place < self.places
        rows[owners[fits], place[fits]] = noise[fits]
        return rows.reshape(-1)

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """Yields designs from least error to fewest messages; ``facts`` must contain ``options``."""
        return iterate_designs({"options": facts["options"]}, users, epsilon, delta, rounds)

    @property
    def law(self) -> AggregateNoiseLaw:
        return AggregateNoiseLaw("CancellingNoise")

    def draw_shuffler_messages(self, source: RandomSource) -> Array | None:
        return self._share.draw(source, 1) if self.honest == 0 else None

    def table(self) -> OutputTable:
        raise ValueError("CancellingNoise: its noise is unbounded, so its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingNoise]:
        return [
            cls(options=2, rate=1.0, shape=4.0, ratio=0.5, honest=10),
            cls(options=5, rate=0.5, shape=3.5, ratio=0.8, honest=25),
            cls(options=3, rate=0.8, shape=6.0, ratio=0.7, honest=0),
            cls(options=4, rate=0.7, shape=5.0, ratio=0.6, honest=20, places=64),
        ]


@dataclass(frozen=True)
class _OverflowFacts:
    """Data from which the probability that some user's noise does not fit follows, for the second proof."""

    share: NoiseShare
    users: int
    places: int

    def __call__(self) -> NoiseFacts:
        noise, each = self.share.noise, self.share.part * self.share.options
        numbers = {"users": self.users, "places": self.places, "rate": noise.rate, "ratio": noise.ratio}
        shapes = {"single": 2 * each, "pairs": Fraction(noise.shape) * each}
        return {"kind": "padded", **{name: Fraction(number) for name, number in (numbers | shapes).items()}}
