"""The privacy of a shuffled output as a function: δ(ε), its inverse ε(δ), and how sure each number is."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from shuffledp import argument, figure as figures
from shuffledp.array import Floats
from shuffledp.document import epsilon_text, typed
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision, round_up
from shuffledp.numerics.expectation import PositivePartMean
from shuffledp.numerics.finite_law import Bracket
from shuffledp.numerics.inversion import invert
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.profile import Profile, checked_epsilons, largest_of
from shuffledp.privacy.record import Record
from shuffledp.privacy.value import BoundValue
from shuffledp.readable import Readable, Row, yes_or_no

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from shuffledp.privacy.attack import Attack

FORMULA_BITS = 256
LEAST_LOG, MOST_LOG = 1e-9, 700.0
"""The range of log(1/δ) in which a closed form is inverted."""
READ_AT = (1e-6, 1e-9)
"""The δ at which a curve is read out where nobody asks for one."""
POINTS = 80
LARGEST_EPSILON = 700.0
"""Beyond this a guarantee says nothing, and e^ε leaves the floats."""
HARDLY_BETTER = 2e-6
"""A log δ in floats that is no more than this below another is not worth computing exactly."""


@dataclass(frozen=True)
class Source:
    """Where a curve comes from: the bound's name, its theorem, and what the reader must know."""

    bound: str
    theorem: str
    messages: int
    """How many messages hide each other."""
    guarantee: bool = False
    note: str = ""
    attack: Attack | None = None
    """What is known from below: shared by every bound of the same randomizer."""
    users: int | None = None
    """How many people take part: all who send, colluding ones included, or all from whom these are drawn; None: one for
    each message that hides."""
    colluding: int = 0
    """How many of these people tell the analyst what they know."""
    some_inputs: bool = False
    """Whether the curve is for chosen pairs of inputs only: a person's other values may be told apart better."""
    origin: str = ""
    """Who stands behind the bound, where it is not shuffledp's own: "MyBound of the module `mine`"."""


@dataclass(frozen=True)
class PrivacyCurve(Readable, Record):
    """δ(ε) of the shuffled output of ``messages`` messages, both directions of the hockey-stick divergence.

    ``epsilon(delta)`` and ``delta(epsilon)`` are values with what stands behind them, ``profile`` is many at once;
    ``print`` and ``plot`` show the curve. ``guarantee`` says whether the values are upper bounds of the privacy loss.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> curve.users, curve.messages, curve.guarantee
    (10000, 10000, True)
    >>> curve.delta(epsilon=0.05).upper < 2.8e-5, curve.epsilon(delta=1e-6).upper < 0.0675
    (True, True)
    """

    source: Source

    @property
    def bound(self) -> str:
        return self.source.bound

    @property
    def theorem(self) -> str:
        return self.source.theorem

    @property
    def messages(self) -> int:
        """How many messages hide each other: one from each honest user, unless the mechanism sends several."""
        return self.source.messages

    @property
    def users(self) -> int:
        """How many people take part, whether their messages hide anybody or not."""
        return self.messages if self.source.users is None else self.source.users

    @property
    def guarantee(self) -> bool:
        """Whether the values are upper bounds of the protocol's true privacy loss."""
        return self.source.guarantee

    @property
    def note(self) -> str:
        return self.source.note

    @property
    def certified(self) -> bool:
        """Every value is computed in ball arithmetic or rounded by a proved bound: False unless a curve says so."""
        return False

    def epsilon(self, delta: float) -> BoundValue:
        """The smallest ε for which (ε, δ)-DP is proved; infinity if there is none."""
        delta = argument.open_probability("PrivacyCurve", "delta", delta)
        return replace(self._epsilon(delta), delta=delta, attack=self.source.attack)

    def delta(self, epsilon: float) -> BoundValue:
        """The smallest δ for which (ε, δ)-DP is proved."""
        epsilon = argument.non_negative("PrivacyCurve", "epsilon", epsilon)
        return replace(self._delta(epsilon), epsilon=epsilon, attack=self.source.attack)

    def profile(self, epsilons: ArrayLike) -> Profile:
        """Certified δ at many ε at once: the fast way where hundreds are needed, and a little wider than ``delta``."""
        points = checked_epsilons(epsilons)
        upper, lower = self._profile(points)
        return Profile(points, upper, lower)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        values = [self._delta(float(epsilon)) for epsilon in epsilons]
        upper = np.array([value.upper for value in values])
        lower = np.array([value.upper - value.slack for value in values])
        return upper, np.maximum(0.0, np.nextafter(lower, -np.inf))

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (upper, lower) of δ at one ε, less sharp than ``delta`` where that is quicker: to search with."""
        value = self._delta(epsilon)
        return value.upper, max(0.0, math.nextafter(value.upper - value.slack, -math.inf))

    def to_pld(self, *, discretization: float = 1e-4, pessimistic: bool = True, smallest_delta: float = 1e-15) -> Any:
        """A privacy-loss distribution of dp_accounting; see ``shuffledp.privacy.bridge``, which also goes back."""
        from shuffledp.privacy import bridge

        return bridge.to_pld(
            self, discretization=discretization, pessimistic=pessimistic, smallest_delta=smallest_delta
        )

    def plot(self, points: float = POINTS) -> Figure:
        """δ against ε as a matplotlib figure, from ε = 0 to where δ is about 1e-9."""
        count = argument.count("PrivacyCurve", "points", points, at_least=2)
        figure, axes = figures.empty()
        epsilons = np.linspace(0.0, self._reach(), count)
        axes.plot(epsilons, self.profile(epsilons).upper, label=self.bound)
        axes.set(xlabel="ε", ylabel="δ", yscale="log", title=self.heading)
        axes.legend()
        return figure

    def _reach(self) -> float:
        """An ε where δ is small, as far as the curve knows one."""
        for delta in READ_AT[::-1]:
            try:
                found = self.epsilon(delta).upper
            except NotApplicable:
                continue
            if math.isfinite(found) and found > 0:
                return found
        return 1.0

    @property
    def heading(self) -> str:
        return f"Privacy curve of {self.messages:,} shuffled messages"

    def summary(self) -> list[Row]:
        rows = [(f"ε at δ = {typed(delta)}", self._read_at(delta)) for delta in READ_AT]
        rows += [
            ("guarantee", yes_or_no(self.guarantee, "NO: not an upper bound of the privacy loss")),
            ("users", f"{self.users:,}"),
            ("messages", f"{self.messages:,} that hide each other"),
            ("bound", self.bound),
            ("theorem", self.theorem),
            ("certified", yes_or_no(self.certified)),
        ]
        return rows + ([("note", self.note)] if self.note else [])

    def _read_at(self, delta: float) -> str:
        try:
            return epsilon_text(self.epsilon(delta).upper)
        except NotApplicable as error:
            return f"none: {error.reason}"

    def rounds(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """The rounds that the curve is made of, and how often each is run: itself once."""
        return ((self, 1),)

    def loss_deviation(self) -> float | None:
        """The standard deviation of the loss in the limit of many users, where it is known."""
        return None

    @property
    def tells_many(self) -> bool:
        """Whether δ at hundreds of ε takes seconds, not minutes."""
        return True

    def may_beat(self, epsilon: float, delta: float) -> bool:
        """Whether it is worth looking for more than this curve is known to be: unless a quick look says that (ε, δ) is
        no worse."""
        return True

    def attacked_by(self, attack: Attack | None) -> Self:
        """The same curve with what is known from below."""
        return replace(self, source=replace(self.source, attack=attack))

    def assuming(self, sentence: str) -> Self:
        """The same curve, its note followed by what it rests on besides mathematics; an empty sentence adds nothing."""
        note = f"{self.note} {sentence}".strip()
        return replace(self, source=replace(self.source, note=note))

    def sent_by(self, users: int, colluding: int = 0) -> Self:
        """The same curve with the number of all users who send, and of those among them who collude."""
        source = replace(self.source, users=users, colluding=colluding)
        return replace(self, source=source)

    def for_some_inputs(self) -> Self:
        """The same curve, known to be for chosen pairs of inputs only."""
        return replace(self, source=replace(self.source, some_inputs=True))

    @abstractmethod
    def _epsilon(self, delta: float) -> BoundValue:
        """The value at δ; what is known from below is added by the caller."""

    @abstractmethod
    def _delta(self, epsilon: float) -> BoundValue:
        """The value at ε; what is known from below is added by the caller."""

    def _value(self, upper: float, slack: float) -> BoundValue:
        source = self.source
        return BoundValue(
            upper, slack, self.bound, self.theorem, self.certified, self.guarantee, self.note, source.origin
        )


@dataclass(frozen=True)
class NumericCurve(PrivacyCurve):
    """The curve of a dominating pair, evaluated numerically exactly.

    ``directions`` gives, for each direction that may differ, the pair whose D_{e^ε}(P‖Q) bounds it at ε.
    ``largest`` is an ε at which both directions vanish (infinity if there is none). ``fixed`` says that each
    direction is one pair at every ε, so that its divergence is convex in e^ε.
    """

    directions: tuple[Callable[[float], HidingPair], ...]
    largest: float
    fixed: bool = False

    @property
    def certified(self) -> bool:
        return True

    @cached_property
    def _divergences(self) -> tuple[PositivePartMean, ...]:
        def family(pair: Callable[[float], HidingPair]) -> PositivePartMean:
            return PositivePartMean(lambda epsilon: pair(epsilon).law(epsilon), self.messages)

        return tuple(family(pair) for pair in self.directions)

    def loss_deviation(self) -> float | None:
        return max(divergence.natural_scale() for divergence in self._divergences)

    def may_beat(self, epsilon: float, delta: float) -> bool:
        """By the floats that a search goes by: who is worse in one direction, or the same, is not worth the time."""
        if not (delta > 0 and epsilon < min(self.largest, LARGEST_EPSILON)):
            return True
        enough = math.log(delta) - HARDLY_BETTER
        return not any(divergence.log_estimate(epsilon) > enough for divergence in self._divergences)

    def _epsilon(self, delta: float) -> BoundValue:
        high = min(self.largest, LARGEST_EPSILON)
        vanishes = self.largest <= LARGEST_EPSILON
        upper = lower = 0.0
        # The widest first: an ε proved for one direction often serves the others as it stands.
        for number, divergence in enumerate(sorted(self._divergences, key=lambda d: -d.natural_scale())):
            if number and math.isfinite(upper) and divergence.is_at_most(delta, upper):
                continue
            inverse = invert(divergence, delta, high, zero_at_high=vanishes)
            upper, lower = max(upper, inverse.upper), max(lower, inverse.lower)
        if math.isinf(upper) and math.isfinite(self.largest):
            return self._value(self.largest, self.largest - lower)
        if math.isinf(upper):
            # Nothing between the largest ε that is looked at and infinity is told apart.
            return self._value(upper, 0.0 if lower >= LARGEST_EPSILON else upper)
        return self._value(upper, upper - lower)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest and math.isfinite(self.largest):
            return self._value(0.0, 0.0)
        found = [d.bracket(min(epsilon, LARGEST_EPSILON)) for d in self._divergences]
        upper = max(value.upper_float() for value in found)
        lower = max(value.lower_float() for value in found)
        upper = min(1.0, upper)
        if epsilon > LARGEST_EPSILON:
            return self._value(upper, upper)
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return float(upper), float(lower)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.zeros_like(epsilons), np.zeros_like(epsilons)
        inside = epsilons < self.largest
        seen = np.minimum(epsilons[inside], LARGEST_EPSILON)
        upper[inside], lower[inside] = largest_of(self._divergences, seen, convex=self.fixed)
        lower[epsilons > LARGEST_EPSILON] = 0.0
        return upper, lower


@dataclass(frozen=True)
class ClosedFormCurve(PrivacyCurve):
    """The curve of an explicit formula ε(δ), given as a function of balls that raises NotApplicable.

    The formula decreases in δ; ``largest`` caps it.
    """

    formula: Callable[[arb], arb]
    largest: float

    @property
    def certified(self) -> bool:
        return True

    def _epsilon(self, delta: float) -> BoundValue:
        with precision(FORMULA_BITS):
            value = round_up(self.formula(arb(delta)))
        upper = min(max(0.0, value), self.largest)
        return self._value(upper, math.ulp(upper) if math.isfinite(upper) else 0.0)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest and math.isfinite(self.largest):
            return self._value(0.0, 0.0)

        def excess(log_inverse_delta: float) -> float:
            """How far the formula is above ε; infinite where it does not apply, as happens for small δ."""
            try:
                return self._epsilon(math.exp(-log_inverse_delta)).upper - epsilon
            except NotApplicable:
                return math.inf

        crossing = find_crossing(excess, LEAST_LOG, MOST_LOG, relative=1e-12)
        if math.isinf(crossing.f_below):
            return self._value(1.0, 0.0)
        upper = math.exp(-crossing.below)
        while excess(-math.log(upper)) > 0:
            upper = math.nextafter(upper, 1.0)
        return self._value(upper, max(0.0, upper - math.exp(-crossing.above)))


@dataclass(frozen=True)
class DeltaFormCurve(PrivacyCurve):
    """The curve of an explicit decreasing formula δ(ε), valid for ε > 0, as a function of balls."""

    formula: Callable[[arb], arb]
    largest: float

    @property
    def certified(self) -> bool:
        return True

    def bracket(self, epsilon: float) -> Bracket:
        """The formula's value, capped by 1."""
        with precision(FORMULA_BITS):
            value = arb(1) if epsilon <= 0 else self.formula(arb(epsilon)).min(arb(1))
            return Bracket(value.lower(), value.upper(), "formula")

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        return 1.0 / math.sqrt(self.messages)

    def _epsilon(self, delta: float) -> BoundValue:
        high = min(self.largest, LARGEST_EPSILON)
        found = invert(self, delta, high, zero_at_high=self.largest <= LARGEST_EPSILON)
        return self._value(found.upper, found.upper - found.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest and math.isfinite(self.largest):
            return self._value(0.0, 0.0)
        value = self.bracket(epsilon)
        return self._value(value.upper_float(), value.upper_float() - value.lower_float())
