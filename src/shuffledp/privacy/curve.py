"""Privacy curves: δ(ε), its inverse ε(δ), and certified lower bounds from attacks on constructed datasets.

A ``BoundValue`` is one number of a curve with its theorem, its slack and its lower bound; a ``CurveSource`` says which
bound the numbers come from.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from flint import arb
from numpy.typing import ArrayLike

from shuffledp._core import plotting, validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import (
    format_epsilon,
    format_epsilon_equation,
    format_exact,
    format_rounded_down,
    format_rounded_up,
    format_slack,
    yes_or_no,
)
from shuffledp._core.results_and_value_objects import PrintableResult, Row, ValueObject
from shuffledp._core.validation import Floats
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.numerics.distributions import Bracket
from shuffledp.numerics.positive_part import PositivePartMean
from shuffledp.numerics.roots import find_crossing, invert
from shuffledp.privacy.dominating_pairs import HidingPair

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from shuffledp.privacy.lower_bounds import Attack


# --- Values at many ε ---


MARGIN = 1e-12
"""Relative margin by which a chord in floats must stay below the value that it is compared with."""


@dataclass(frozen=True, eq=False)
class Profile(ValueObject):
    """Certified values ``lower`` ≤ δ(ε) ≤ ``upper`` at each of ``epsilons``, the worse of both directions.

    For several bounds, ``upper`` is the smallest and ``lower`` belongs to the bound that gave it.
    """

    epsilons: Floats
    upper: Floats
    lower: Floats


def check_epsilons(epsilons: ArrayLike) -> Floats:
    """Returns ``epsilons`` as a one-dimensional array of finite numbers of at least 0, or raises ValueError."""
    points = np.atleast_1d(validation.reals("PrivacyCurve.profile", "epsilons", epsilons))
    if points.ndim != 1 or not np.all(np.isfinite(points)) or np.any(points < 0):
        raise ValueError("PrivacyCurve.profile: epsilons must be a row of finite numbers of at least 0.")
    return points


def largest_divergence(
    divergences: Sequence[PositivePartMean], epsilons: Floats, *, convex: bool
) -> tuple[Floats, Floats]:
    """Returns certified (upper, lower) values of the largest divergence at each ε.

    ``convex`` says that every divergence is convex in e^ε. A divergence that stays below the largest is then evaluated
    only where the chord between two of its values does not prove that it does.
    """
    order = np.argsort(epsilons, kind="stable")
    points = epsilons[order]
    largest = _RunningMaximum(points)
    if convex and len(divergences) > 1 and len(points) > 3:
        leader = _leader(divergences, points)
        largest.include_everywhere(divergences[leader])
        for number, divergence in enumerate(divergences):
            if number != leader:
                largest.include_where_needed(divergence)
    else:
        for divergence in divergences:
            largest.include_everywhere(divergence)
    upper, lower = np.empty_like(points), np.empty_like(points)
    upper[order], lower[order] = largest.upper, largest.lower
    return np.minimum(upper, 1.0), np.minimum(lower, 1.0)


def _leader(divergences: Sequence[PositivePartMean], points: Floats) -> int:
    """Returns the index of the divergence that is likely to be the largest almost everywhere."""
    middle = float(points[len(points) // 2])
    return int(np.argmax([divergence.log_estimate(middle) for divergence in divergences]))


class _RunningMaximum:
    """The running maximum of divergences on sorted points."""

    def __init__(self, points: Floats) -> None:
        self.points = points
        self.ratios = np.exp(points)
        self.upper = np.zeros_like(points)
        self.lower = np.zeros_like(points)

    def include_everywhere(self, divergence: PositivePartMean) -> None:
        for place, found in enumerate(divergence.brackets(self.points.tolist())):
            self._record(found, place)

    def include(self, divergence: PositivePartMean, place: int) -> float:
        (found,) = divergence.brackets([float(self.points[place])])
        return self._record(found, place)

    def _record(self, found: Bracket, place: int) -> float:
        upper = found.upper_float()
        self.upper[place] = max(self.upper[place], upper)
        self.lower[place] = max(self.lower[place], found.lower_float())
        return upper

    def include_where_needed(self, divergence: PositivePartMean) -> None:
        last = len(self.points) - 1
        intervals = [(0, self.include(divergence, 0), last, self.include(divergence, last))]
        while intervals:
            start, first, end, second = intervals.pop()
            if end - start < 2 or self._chord_is_below(start, first, end, second):
                continue
            middle = (start + end) // 2
            value = self.include(divergence, middle)
            intervals += [(start, first, middle, value), (middle, value, end, second)]

    def _chord_is_below(self, start: int, first: float, end: int, second: float) -> bool:
        """Returns True if the chord, which bounds the divergence, is below a proved lower value everywhere inside."""
        inside = slice(start + 1, end)
        left, right = self.ratios[start], self.ratios[end]
        if not right > left:
            return False
        share = (self.ratios[inside] - left) / (right - left)
        # e^ε in floats is off by about an ulp, which moves the share by at most this much.
        doubt = 8 * np.spacing(right) / (right - left)
        chord = first + (second - first) * np.maximum(0.0, share - doubt)
        return bool(np.all(chord * (1 + MARGIN) <= self.lower[inside]))


# --- One value of a curve ---


@dataclass(frozen=True)
class BoundValue(PrintableResult, ValueObject):
    """One number of a privacy statement, with its theorem, its numerical error and its lower bound.

    ``float()`` of it is ``upper``. ``lower`` is attained by an attack on a constructed dataset; None if none is known.

    Args:
        upper: The certified guarantee.
        slack: Amount by which ``upper`` may exceed the exact value of the same bound, in the same unit.
        bound: Name of the bound.
        theorem: Theorem and paper that prove the bound.
        certified: True if ``upper`` is computed in ball arithmetic or rounded by a proved bound.
        guarantee: True if ``upper`` is an upper bound of the privacy loss.
        note: Further conditions that the reader must know.
        origin: Author of the bound, if it is not one of shuffledp's.
        delta: The δ at which ``upper`` is an ε; None for other values.
        epsilon: The ε at which ``upper`` is a δ; None for other values.
        attack: Attack that gives ``lower``.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> print(curve.epsilon(delta=1e-6))
    ε = 0.0674903 at δ = 1e-6
      guarantee              yes
      attained by an attack  0.0674885
      numerical slack        1.6e-10
      bound                  optimal
      theorem                privacy blanket [PB], numerically exact [SCW25]
      certified              yes
    """

    upper: float
    slack: float
    bound: str
    theorem: str
    certified: bool
    guarantee: bool
    note: str = ""
    origin: str = ""
    delta: float | None = field(default=None, repr=False)
    epsilon: float | None = field(default=None, repr=False)
    attack: Attack | None = field(default=None, repr=False)

    @cached_property
    def lower(self) -> float | None:
        """The value that an attack attains, computed at first access; None if no attack is known."""
        if self.attack is None:
            return None
        if self.delta is not None:
            return self.attack.epsilon(self.delta)
        return None if self.epsilon is None else self.attack.delta(self.epsilon)

    def __float__(self) -> float:
        return self.upper

    def document(self, *, attacked: bool = True) -> dict[str, Any]:
        """Returns the value as a JSON object.

        Of ε and δ, the argument is a plain number and the result an object with its bounds. A value that is neither,
        such as a Rényi divergence, is called "value". ``origin`` is present only if the bound is not one of
        shuffledp's.

        Args:
            attacked: If False, ``lower`` is left out; it may take as long to compute as the value itself.

        Returns:
            A dictionary of JSON values.
        """
        bounds = {"lower": self.lower} if attacked else {}
        bounds |= {"upper": self.upper, "slack": self.slack}
        fields: dict[str, Any] = {"value": bounds}
        if self.delta is not None:
            fields = {"epsilon": bounds, "delta": self.delta}
        elif self.epsilon is not None:
            fields = {"epsilon": self.epsilon, "delta": bounds}
        fields |= {"bound": self.bound, "theorem": self.theorem, "certified": self.certified}
        fields |= {"guarantee": self.guarantee, "note": self.note}
        return fields | ({"origin": self.origin} if self.origin else {})

    @property
    def heading(self) -> str:
        if self.delta is not None:
            return f"{format_epsilon_equation(self.upper)} at δ = {format_exact(self.delta)}"
        number = format_rounded_up(self.upper)
        return f"value = {number}" if self.epsilon is None else f"δ = {number} at ε = {format_exact(self.epsilon)}"

    def summary(self) -> list[Row]:
        rows = [
            ("guarantee", yes_or_no(self.guarantee, "NO: not an upper bound of the privacy loss")),
            ("attained by an attack", "none known" if self.lower is None else format_rounded_down(self.lower)),
            ("numerical slack", format_slack(self.slack)),
            ("bound", self.bound),
            ("theorem", self.theorem),
            ("certified", yes_or_no(self.certified)),
        ]
        return rows + ([("note", self.note)] if self.note else [])


def exact_lower_bound(value: BoundValue) -> float:
    """Returns a lower bound of the exact value of the same bound."""
    if math.isinf(value.upper):
        return 0.0
    return max(0.0, math.nextafter(value.upper - value.slack, 0.0))


FORMULA_BITS = 256
MIN_LOG, MAX_LOG = 1e-9, 700.0
"""Range of log(1/δ) in which a closed form is inverted."""
SUMMARY_DELTAS = (1e-6, 1e-9)
"""The values of δ that summaries and plots use."""
PLOT_POINTS = 80
MAX_EPSILON = 700.0
"""Beyond this a guarantee is meaningless, and e^ε overflows."""
MIN_LOG_IMPROVEMENT = 2e-6
"""An estimate of log δ that is not lower than another by more than this is not worth computing exactly."""


@dataclass(frozen=True)
class CurveSource:
    """The origin of a curve: its bound, the theorem behind it, its conditions and the numbers of messages and users."""

    bound: str
    theorem: str
    messages: int
    """Number of messages that hide each other."""
    guarantee: bool = False
    note: str = ""
    attack: Attack | None = None
    """Lower bounds, shared by all bounds of the same randomizer."""
    users: int | None = None
    """Number of participants, colluding ones included, or of the population they are drawn from; None: ``messages``."""
    colluding: int = 0
    """Number of these users who reveal everything they know to the analyst."""
    chosen_inputs_only: bool = False
    """True if the curve covers chosen pairs of inputs only; other values of a person may be easier to distinguish."""
    origin: str = ""
    """Author of the bound if it is not one of shuffledp's: "MyBound of the module `mine`"."""


@dataclass(frozen=True)
class PrivacyCurve(PrintableResult, ValueObject):
    """An upper bound of δ(ε) of the shuffled messages, for both directions of the hockey-stick divergence.

    ``epsilon(delta)`` and ``delta(epsilon)`` return single values with their theorem and numerical error, ``profile``
    returns many; ``print`` and ``plot`` show the curve.

    Args:
        source: The bound, its theorem and the numbers of messages and users.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000)
    >>> curve.users, curve.messages, curve.guarantee
    (10000, 10000, True)
    >>> curve.delta(epsilon=0.05).upper < 2.8e-5, curve.epsilon(delta=1e-6).upper < 0.0675
    (True, True)
    """

    source: CurveSource

    @property
    def bound(self) -> str:
        """Name of the bound."""
        return self.source.bound

    @property
    def theorem(self) -> str:
        """The theorem behind the bound."""
        return self.source.theorem

    @property
    def messages(self) -> int:
        """Number of messages that hide each other: one per honest user, unless the mechanism sends several."""
        return self.source.messages

    @property
    def users(self) -> int:
        """Number of participants, including those whose messages hide nobody."""
        return self.messages if self.source.users is None else self.source.users

    @property
    def guarantee(self) -> bool:
        """True if the values are upper bounds of the protocol's true privacy loss."""
        return self.source.guarantee

    @property
    def note(self) -> str:
        """A remark on the curve; empty if there is none."""
        return self.source.note

    @property
    def certified(self) -> bool:
        """True if every value is computed in ball arithmetic or rounded by a proved bound."""
        return False

    def epsilon(self, delta: float) -> BoundValue:
        """Returns the smallest ε for which (ε, δ)-DP is proved.

        Args:
            delta: The δ of the guarantee.

        Returns:
            The value of ε; infinity if no ε is proved.

        Raises:
            ValueError: If ``delta`` is not between 0 and 1, both excluded.
            NotApplicable: If the theorem of the bound does not cover this δ.
        """
        delta = validation.open_probability("PrivacyCurve", "delta", delta)
        return replace(self._epsilon(delta), delta=delta, attack=self.source.attack)

    def delta(self, epsilon: float) -> BoundValue:
        """Returns the smallest δ for which (ε, δ)-DP is proved.

        Args:
            epsilon: The ε of the guarantee.

        Returns:
            The value of δ.

        Raises:
            ValueError: If ``epsilon`` is negative.
        """
        epsilon = validation.non_negative("PrivacyCurve", "epsilon", epsilon)
        return replace(self._delta(epsilon), epsilon=epsilon, attack=self.source.attack)

    def profile(self, epsilons: ArrayLike) -> Profile:
        """Returns certified values of δ at many ε at once.

        This is the fast way to hundreds of values; they are a little wider than those of ``delta``.

        Args:
            epsilons: Finite numbers of at least 0.

        Returns:
            Upper and lower values at each ε.

        Raises:
            ValueError: If some ε is negative or not finite, or if the array has more than one dimension.
        """
        points = check_epsilons(epsilons)
        upper, lower = self._profile(points)
        return Profile(points, upper, lower)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        values = [self._delta(float(epsilon)) for epsilon in epsilons]
        upper = np.array([value.upper for value in values])
        lower = np.array([value.upper - value.slack for value in values])
        return upper, np.maximum(0.0, np.nextafter(lower, -np.inf))

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        """Returns certified bounds of δ at one ε for use in a search, less sharp than ``delta`` where that is faster.

        Args:
            epsilon: The ε of the guarantee.

        Returns:
            The pair (upper, lower).
        """
        value = self._delta(epsilon)
        return value.upper, max(0.0, math.nextafter(value.upper - value.slack, -math.inf))

    def to_pld(self, *, discretization: float = 1e-4, pessimistic: bool = True, smallest_delta: float = 1e-15) -> Any:
        """Returns the curve as a privacy-loss distribution of dp_accounting.

        ``shuffledp.privacy.dp_accounting`` has the details and the opposite conversion.

        Args:
            discretization: Grid step of the losses, the same for all distributions that are composed.
            pessimistic: True for a distribution that is worse than the curve, False for one that is better.
            smallest_delta: Losses that matter only for smaller δ are moved to infinity.

        Returns:
            A ``PrivacyLossDistribution``.

        Raises:
            ImportError: If dp_accounting is not installed.
            ValueError: If a number is out of range, or if the grid would have more than ten million points.
        """
        from shuffledp.privacy import dp_accounting

        return dp_accounting.to_pld(
            self, discretization=discretization, pessimistic=pessimistic, smallest_delta=smallest_delta
        )

    def plot(self, points: float = PLOT_POINTS) -> Figure:
        """Plots δ against ε, from ε = 0 to where δ is about 1e-9.

        Args:
            points: Number of evaluated points, at least 2.

        Returns:
            A matplotlib figure.

        Raises:
            ValueError: If ``points`` is below 2.
        """
        count = validation.count("PrivacyCurve", "points", points, at_least=2)
        figure, axes = plotting.create_figure()
        epsilons = np.linspace(0.0, self._reach(), count)
        axes.plot(epsilons, self.profile(epsilons).upper, label=self.bound)
        axes.set(xlabel="ε", ylabel="δ", yscale="log", title=self.heading)
        axes.legend()
        return figure

    def _reach(self) -> float:
        """Returns an ε at which δ is small, if the curve knows one, else 1."""
        for delta in SUMMARY_DELTAS[::-1]:
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
        rows = [(f"ε at δ = {format_exact(delta)}", self._format_epsilon_at(delta)) for delta in SUMMARY_DELTAS]
        rows += [
            ("guarantee", yes_or_no(self.guarantee, "NO: not an upper bound of the privacy loss")),
            ("users", f"{self.users:,}"),
            ("messages", f"{self.messages:,} that hide each other"),
            ("bound", self.bound),
            ("theorem", self.theorem),
            ("certified", yes_or_no(self.certified)),
        ]
        return rows + ([("note", self.note)] if self.note else [])

    def _format_epsilon_at(self, delta: float) -> str:
        try:
            return format_epsilon(self.epsilon(delta).upper)
        except NotApplicable as error:
            return f"none: {error.reason}"

    def rounds(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """Returns the curves of the rounds with their multiplicities; for a single round, the curve itself once."""
        return ((self, 1),)

    def loss_deviation(self) -> float | None:
        """Returns the standard deviation of the loss in the limit of many users, or None if it is not known."""
        return None

    @property
    def has_fast_profile(self) -> bool:
        """True if δ at hundreds of ε takes seconds rather than minutes."""
        return True

    def may_beat(self, epsilon: float, delta: float) -> bool:
        """Returns False if a quick estimate shows that this curve is no better than (ε, δ).

        Args:
            epsilon: The ε of another guarantee.
            delta: The δ of that guarantee.

        Returns:
            True if computing this curve may give a better value.
        """
        return True

    def with_attack(self, attack: Attack | None) -> Self:
        """Returns the same curve with the lower bounds of an attack.

        Args:
            attack: The attack, or None for no lower bounds.

        Returns:
            A copy of the curve.
        """
        return replace(self, source=replace(self.source, attack=attack))

    def with_assumption(self, sentence: str) -> Self:
        """Returns the same curve with an assumption added to its note.

        Args:
            sentence: Condition besides mathematics that the privacy rests on; an empty one adds nothing.

        Returns:
            A copy of the curve.
        """
        note = f"{self.note} {sentence}".strip()
        return replace(self, source=replace(self.source, note=note))

    def with_users(self, users: int, colluding: int = 0) -> Self:
        """Returns the same curve with the numbers of participating and of colluding users.

        Args:
            users: Number of all users who send, colluding ones included.
            colluding: Number of users who collude with the analyst.

        Returns:
            A copy of the curve.
        """
        source = replace(self.source, users=users, colluding=colluding)
        return replace(self, source=source)

    def with_chosen_inputs(self) -> Self:
        """Returns the same curve, marked as covering chosen pairs of inputs only."""
        return replace(self, source=replace(self.source, chosen_inputs_only=True))

    @abstractmethod
    def _epsilon(self, delta: float) -> BoundValue:
        """Returns the value at δ without lower bound, which the caller adds."""

    @abstractmethod
    def _delta(self, epsilon: float) -> BoundValue:
        """Returns the value at ε without lower bound, which the caller adds."""

    def _value(self, upper: float, slack: float) -> BoundValue:
        source = self.source
        return BoundValue(
            upper, slack, self.bound, self.theorem, self.certified, self.guarantee, self.note, source.origin
        )


@dataclass(frozen=True)
class NumericCurve(PrivacyCurve):
    """The curve of a dominating pair, evaluated numerically exactly.

    ``directions`` holds, for each direction that may differ, the pair whose D_{e^ε}(P‖Q) bounds it at ε.
    ``largest_epsilon`` is an ε at which both directions vanish (infinity if there is none). ``has_fixed_pairs`` says
    that each direction is one pair at every ε, so that its divergence is convex in e^ε.
    """

    directions: tuple[Callable[[float], HidingPair], ...]
    largest_epsilon: float
    has_fixed_pairs: bool = False

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
        """Compares float estimates: a curve that is no better in one direction is not worth computing."""
        if not (delta > 0 and epsilon < min(self.largest_epsilon, MAX_EPSILON)):
            return True
        log_target = math.log(delta) - MIN_LOG_IMPROVEMENT
        return not any(divergence.log_estimate(epsilon) > log_target for divergence in self._divergences)

    def _epsilon(self, delta: float) -> BoundValue:
        high = min(self.largest_epsilon, MAX_EPSILON)
        vanishes = self.largest_epsilon <= MAX_EPSILON
        upper = lower = 0.0
        # Widest direction first: an ε proved for it often holds for the others as well.
        for number, divergence in enumerate(sorted(self._divergences, key=lambda d: -d.natural_scale())):
            if number and math.isfinite(upper) and divergence.is_at_most(delta, upper):
                continue
            inverse = invert(divergence, delta, high, zero_at_high=vanishes)
            upper, lower = max(upper, inverse.upper), max(lower, inverse.lower)
        if math.isinf(upper) and math.isfinite(self.largest_epsilon):
            return self._value(self.largest_epsilon, self.largest_epsilon - lower)
        if math.isinf(upper):
            # Values between the largest ε that is evaluated and infinity cannot be distinguished.
            return self._value(upper, 0.0 if lower >= MAX_EPSILON else upper)
        return self._value(upper, upper - lower)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest_epsilon and math.isfinite(self.largest_epsilon):
            return self._value(0.0, 0.0)
        brackets = [d.bracket(min(epsilon, MAX_EPSILON)) for d in self._divergences]
        upper = max(value.upper_float() for value in brackets)
        lower = max(value.lower_float() for value in brackets)
        upper = min(1.0, upper)
        if epsilon > MAX_EPSILON:
            return self._value(upper, upper)
        return self._value(upper, math.nextafter(upper - lower, math.inf) if upper > lower else 0.0)

    def quick_delta(self, epsilon: float) -> tuple[float, float]:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return float(upper), float(lower)

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        upper, lower = np.zeros_like(epsilons), np.zeros_like(epsilons)
        inside = epsilons < self.largest_epsilon
        points = np.minimum(epsilons[inside], MAX_EPSILON)
        upper[inside], lower[inside] = largest_divergence(self._divergences, points, convex=self.has_fixed_pairs)
        lower[epsilons > MAX_EPSILON] = 0.0
        return upper, lower


@dataclass(frozen=True)
class ClosedFormCurve(PrivacyCurve):
    """The curve of an explicit formula ε(δ), a function of balls that may raise NotApplicable.

    The formula decreases in δ; ``largest_epsilon`` caps it.
    """

    formula: Callable[[arb], arb]
    largest_epsilon: float

    @property
    def certified(self) -> bool:
        return True

    def _epsilon(self, delta: float) -> BoundValue:
        with precision(FORMULA_BITS):
            value = round_up(self.formula(arb(delta)))
        upper = min(max(0.0, value), self.largest_epsilon)
        return self._value(upper, math.ulp(upper) if math.isfinite(upper) else 0.0)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest_epsilon and math.isfinite(self.largest_epsilon):
            return self._value(0.0, 0.0)

        def excess(log_inverse_delta: float) -> float:
            """Returns the excess of the formula over ε; infinity where it does not apply, as happens for small δ."""
            try:
                return self._epsilon(math.exp(-log_inverse_delta)).upper - epsilon
            except NotApplicable:
                return math.inf

        crossing = find_crossing(excess, MIN_LOG, MAX_LOG, relative=1e-12)
        if math.isinf(crossing.f_below):
            return self._value(1.0, 0.0)
        upper = math.exp(-crossing.below)
        while excess(-math.log(upper)) > 0:
            upper = math.nextafter(upper, 1.0)
        return self._value(upper, max(0.0, upper - math.exp(-crossing.above)))


@dataclass(frozen=True)
class ClosedFormDeltaCurve(PrivacyCurve):
    """The curve of an explicit decreasing formula δ(ε), a function of balls that is valid for ε > 0; 1 at ε = 0."""

    formula: Callable[[arb], arb]
    largest_epsilon: float

    @property
    def certified(self) -> bool:
        return True

    def bracket(self, epsilon: float) -> Bracket:
        """Returns the formula's value, capped by 1."""
        with precision(FORMULA_BITS):
            value = arb(1) if epsilon <= 0 else self.formula(arb(epsilon)).min(arb(1))
            return Bracket(value.lower(), value.upper(), "formula")

    def log_estimate(self, epsilon: float) -> float:
        return self.bracket(epsilon).log_upper()

    def natural_scale(self) -> float:
        return 1.0 / math.sqrt(self.messages)

    def _epsilon(self, delta: float) -> BoundValue:
        high = min(self.largest_epsilon, MAX_EPSILON)
        inverse = invert(self, delta, high, zero_at_high=self.largest_epsilon <= MAX_EPSILON)
        return self._value(inverse.upper, inverse.upper - inverse.lower)

    def _delta(self, epsilon: float) -> BoundValue:
        if epsilon >= self.largest_epsilon and math.isfinite(self.largest_epsilon):
            return self._value(0.0, 0.0)
        value = self.bracket(epsilon)
        return self._value(value.upper_float(), value.upper_float() - value.lower_float())


# --- Interpolation between proved values ---


NEGLIGIBLE_DELTA = 1e-24
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class InterpolationPoints:
    """Proved values ``lower`` ≤ δ ≤ ``upper`` at ``points``, which start at 0, and bounds of δ between them.

    δ(ε) is convex in e^ε and falls to 0 at ``largest_epsilon``.

    Theorem: the largest divergence over all datasets is convex in e^ε: between two points the chord is above it; the
    continuation of the chord of two neighbouring points is below it.
    """

    points: Floats
    upper: Floats
    lower: Floats
    largest_epsilon: float

    @classmethod
    def from_function(cls, at: Callable[[float], tuple[float, float]], step: float, largest: float, most: int) -> Self:
        """Evaluates (upper, lower) at ε = 0, step, 2·step, … until δ is negligible."""
        points: list[float] = []
        uppers: list[float] = []
        lowers: list[float] = []
        while len(points) < most:
            point = min(step * len(points), largest, MAX_EPSILON)
            upper, lower = at(point)
            points.append(point)
            uppers.append(upper)
            lowers.append(lower)
            if point >= min(largest, MAX_EPSILON) or upper < NEGLIGIBLE_DELTA:
                break
        return cls(np.array(points), np.array(uppers), np.array(lowers), largest)

    def interpolate(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Returns (upper, lower) at any ε ≥ 0."""
        points, upper, lower = self.points, self.upper, self.lower
        if len(points) == 1:
            # Already at ε = 0 δ is negligible.
            return np.full_like(epsilons, upper[0]), np.zeros_like(epsilons)
        capped = np.minimum(epsilons, points[-1])
        right = np.clip(np.searchsorted(points, capped, side="right"), 1, len(points) - 1)
        share = _chord_position(capped, points[right - 1], points[right])
        most = (upper[right - 1] + (upper[right] - upper[right - 1]) * share) * (1 + ROUNDING)
        # The continuation of a chord between two neighbouring points of a convex function is below the function. The
        # neighbour to the left of ε = 0 is the mirror image of the first point: D_x(P‖Q) = 1 − x + x·D_{1/x}(Q‖P).
        before = np.concatenate(([-points[1]], points))[right - 1]
        mirrored = -np.expm1(-points[1]) + upper[1] * np.exp(-points[1])
        above = np.concatenate(([mirrored], upper))[right - 1]
        reach = (capped - points[right - 1]) / (points[right - 1] - before)
        least = lower[right - 1] * (1 + reach) - above * reach * np.exp(points[right] - before)
        least = np.maximum(lower[right], least * (1 - ROUNDING) - ROUNDING * above)
        beyond = epsilons > points[-1]
        most = np.where(beyond & (epsilons >= self.largest_epsilon), 0.0, most)
        return most, np.where(beyond, 0.0, np.maximum(0.0, least))


def _chord_position(points: Floats, left: Floats, right: Floats) -> Floats:
    """Returns the position of e^ε between the left and the right end, from 0 to 1, rounded down."""
    # The exponentials are off by an ulp or two, which moves the share by less than ROUNDING.
    return np.asarray(np.maximum(0.0, np.expm1(points - left) / np.expm1(right - left) * (1 - ROUNDING)))
