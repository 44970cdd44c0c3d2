"""``compose``: the privacy of several rounds on the same users."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from shuffledp import argument
from shuffledp.array import Floats
from shuffledp.composition.repeated_attack import RepeatedAttack
from shuffledp.errors import NumericalError
from shuffledp.numerics.convolution import UNIT, GridMeasure, GridSum, TiltedSum, TooLong
from shuffledp.numerics.hull import Kinked
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import LARGEST_EPSILON, PrivacyCurve, Source
from shuffledp.privacy.loss import LossGrid, LossSurvey, round_step
from shuffledp.privacy.value import BoundValue

_WHO = "compose"
ACCURACY, ACCURACY_OF_MANY, MANY = 1e-4, 2.5e-4, 10
"""By how much, relatively, the grid may raise ε; the second where there are many different curves."""
LEFT_AT_INFINITY = 1e-4
"""Share of δ that cutting the tails of all rounds may cost."""
DECADES = 3
"""Targets are rounded down to such powers of ten, so that neighbouring questions share the work."""
FIRST_TARGET, LEAST_TARGET = 1e-6, 1e-300
SURVEYED = 1e-12
REACH = 4.0
"""Standard deviations of one round's loss, beyond where the sum shifts it, in which every grid point is used."""
MOST_REFINEMENTS = 6
LARGEST_LOG = 700.0
"""e to this power is still a float."""
COARSENING, COARSEST_STEP = 32, 0.5

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _Side:
    """The composed pair on one side: the measure of the finite losses and the mass at infinity."""

    total: GridSum
    infinite: float


class _Composer:
    """The discretised rounds, shared by every question about one composition."""

    def __init__(self, parts: tuple[tuple[PrivacyCurve, int], ...], accuracy: float) -> None:
        self.times = [times for _, times in parts]
        self.rounds = sum(self.times)
        surveys = [LossSurvey(curve, SURVEYED) for curve, _ in parts]
        self.variances = [survey.variance for survey in surveys]
        self.variance = math.fsum(n * v for n, v in zip(self.times, self.variances, strict=True))
        # Chords spread the loss over cells of length h and add about h²/6 to its variance, round by round.
        self.step = round_step(math.sqrt(6 * accuracy * self.variance / self.rounds))
        self.floors = [(curve, survey.floor) for (curve, _), survey in zip(parts, surveys, strict=True)]
        self._start()

    def _start(self) -> None:
        self.grids = [LossGrid(curve, self.step, floor) for curve, floor in self.floors]
        self.sides: dict[float, tuple[_Side, _Side]] = {}

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """The answer on the first grid that is not too fine for what the losses spread over.

        A few large losses may count for nothing in the variance, which chose the first grid, and yet for δ.
        """
        while True:
            try:
                return question()
            except TooLong:
                if self.step > COARSEST_STEP:
                    raise
                self.step *= COARSENING
                self._start()

    def at(self, target: float) -> tuple[_Side, _Side]:
        """(dominating, dominated), fine enough for values of δ of about ``target`` and above."""
        target = max(LEAST_TARGET, 10.0 ** (DECADES * math.floor(math.log10(target) / DECADES)))
        if target not in self.sides:
            shift = math.sqrt(-2 * math.log(target) / self.variance)
            share = LEFT_AT_INFINITY * target / self.rounds
            pairs = [
                grid.pairs(shift * variance + REACH * math.sqrt(variance), share, lambda x: np.full_like(x, share))
                for grid, variance in zip(self.grids, self.variances, strict=True)
            ]
            self.sides[target] = self._side([pair[0] for pair in pairs]), self._side([pair[1] for pair in pairs])
        return self.sides[target]

    def _side(self, pairs: list[Kinked]) -> _Side:
        parts: list[tuple[GridMeasure, int]] = []
        log_all = log_infinite = 0.0
        for pair, times in zip(pairs, self.times, strict=True):
            finite = math.fsum(pair.kinks.masses)
            parts.append((pair.kinks, times))
            log_all += times * math.log(finite + pair.rest)
            log_infinite += times * math.log1p(pair.rest / finite)
        if log_all > LARGEST_LOG:
            raise NumericalError(f"{_WHO}: the rounds are too many for floats; compose fewer.")
        # Π(finite + rest) − Π finite; the factor covers the rounding of the logarithms, one for each round.
        infinite = math.exp(log_all) * -math.expm1(-log_infinite) * (1 + 1e-9 + 8 * UNIT * self.rounds)
        return _Side(GridSum(tuple(parts)), infinite)


@dataclass(frozen=True)
class ComposedCurve(PrivacyCurve):
    """The curve of several rounds, each a curve taken a number of times; inputs may be chosen adaptively.

    Theorem: [VR] Lemma 7.2: if each round is dominated by a pair, all rounds are dominated by the product of the
    pairs. The pairs are built from the curves by connecting the dots (privacy/loss.py).
    Requires: each curve bounds both directions for every neighbouring pair and for whatever came before.
    Returns: a certified upper value; ``slack`` is its distance to a certified lower value of the same product,
    grid, tails, wrap-around and rounding included.
    """

    parts: tuple[tuple[PrivacyCurve, int], ...]
    accuracy: float

    @property
    def certified(self) -> bool:
        return all(curve.certified for curve, _ in self.parts)

    def rounds(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        return self.parts

    def loss_deviation(self) -> float | None:
        each = [(times, curve.loss_deviation()) for curve, times in self.parts]
        squares = [times * one * one for times, one in each if one is not None]
        return math.sqrt(math.fsum(squares)) if len(squares) == len(each) else None

    @cached_property
    def _composer(self) -> _Composer:
        return _Composer(self.parts, self.accuracy)

    def _epsilon(self, delta: float) -> BoundValue:
        return self._composer.ask(lambda: self._root(delta))

    def _root(self, delta: float) -> BoundValue:
        above, below = self._composer.at(delta)
        upper = _Crossing(above, delta).smallest_proved()
        lower = _Crossing(below, delta).largest_refuted()
        slack = 0.0 if math.isinf(upper) and lower >= LARGEST_EPSILON else upper - lower
        return self._value(upper, max(0.0, slack))

    def _delta(self, epsilon: float) -> BoundValue:
        (upper,), (lower,) = self._profile(np.array([epsilon]))
        return self._value(float(upper), max(0.0, math.nextafter(upper - lower, math.inf)))

    def _profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        return self._composer.ask(lambda: self._values(epsilons))

    def _values(self, epsilons: Floats) -> tuple[Floats, Floats]:
        points = np.minimum(epsilons, LARGEST_EPSILON)
        above, below = self._fine_enough_for(float(points.max(initial=0.0)))
        upper = np.minimum(1.0, _everywhere(above.total, points, TiltedSum.upper) + above.infinite)
        return upper, np.minimum(upper, _everywhere(below.total, points, TiltedSum.lower))

    def _fine_enough_for(self, epsilon: float) -> tuple[_Side, _Side]:
        """Both sides, cut so far out that what is left at infinity is little compared with δ(ε)."""
        target = FIRST_TARGET
        for _ in range(MOST_REFINEMENTS):
            above, below = self._composer.at(target)
            (finite,) = _everywhere(above.total, np.array([epsilon]), TiltedSum.upper)
            if target <= LEAST_TARGET or finite >= target:
                break
            # Where nothing finite is left, only the smallest target shows how much is really at infinity.
            target = max(LEAST_TARGET, finite * 0.1)
        return above, below


def _everywhere(total: GridSum, points: Floats, side: Callable[[TiltedSum, float], float]) -> Floats:
    """One side of the positive part at each point; a tilt serves until one standard deviation further."""
    result = np.zeros_like(points)
    tilted, end = None, -math.inf
    for place in np.argsort(points).tolist():
        x = float(points[place])
        if x >= total.most:
            break
        if tilted is None or x > end:
            tilt = total.tilt_for(x)
            tilted = total.tilted(tilt, x)
            end = x + math.sqrt(total.moments(tilt)[2])
        result[place] = side(tilted, x)
    return result


class _Crossing:
    """Where the composed δ(ε) of one side crosses a level."""

    def __init__(self, side: _Side, level: float) -> None:
        self.side, self.level = side, level
        total = side.total
        tilt = total.tilt_for_level(math.log(level))
        _, mean, variance = total.moments(tilt)
        centre = mean - (1 / tilt + 1 / (1 + tilt) if tilt > 0 else 0.0)
        least = max(0.0, centre - 3 * math.sqrt(variance)) if tilt > 0 else 0.0
        self.high = min(LARGEST_EPSILON, max(total.most, 0.0) + total.step)
        self.guess = min(max(centre, least), self.high)
        self.tilted = total.tilted(tilt, min(least, self.high))

    def smallest_proved(self) -> float:
        """An ε at which the level is kept, as small as can be told; infinity if there is none."""
        if self._upper(self.high) > self.level:
            return math.inf
        if self._upper(self.tilted.least) <= self.level:
            if self.tilted.least == 0.0:
                return 0.0
            self._look_further_left()
            if self._upper(0.0) <= self.level:
                return 0.0
        return self._search(self._upper)[1]

    def largest_refuted(self) -> float:
        """An ε at which the level is certainly reached, as large as can be told."""
        if self.tilted.lower(self.tilted.least) < self.level:
            if self.tilted.least == 0.0:
                return 0.0
            self._look_further_left()
            if self.tilted.lower(0.0) < self.level:
                return 0.0
        return self._search(self.tilted.lower)[0]

    def _look_further_left(self) -> None:
        self.tilted = self.side.total.tilted(self.tilted.tilt, 0.0)

    def _upper(self, epsilon: float) -> float:
        return self.tilted.upper(epsilon) + self.side.infinite

    def _search(self, value: Callable[[float], float]) -> tuple[float, float]:
        """Two points close together: the value is at least the level at the first, at most the level at the second."""

        def excess(epsilon: float) -> float:
            found = value(epsilon)
            return math.log(self.level / found) if found > 0 else math.inf

        found = find_crossing(excess, self.tilted.least, self.high, guess=self.guess, relative=1e-9, absolute=1e-12)
        return found.below, found.above


def compose(
    curves: PrivacyCurve | Iterable[PrivacyCurve], rounds: float | None = None, *, accuracy: float | None = None
) -> PrivacyCurve:
    """The privacy curve of several rounds with the same users: one curve ``rounds`` times, or a list of curves.

    Each round may be chosen after seeing the earlier ones. ``accuracy`` is about how much, relatively, the grid may
    raise ε (1e-4, or 2.5e-4 for more than ten different curves); what it did raise is in ``slack``.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.KRR(epsilon=2.0, options=16), users=10_000, effort="quick")
    >>> sdp.compose(curve, 10).epsilon(delta=1e-6).upper < 0.232
    True
    """
    if isinstance(curves, PrivacyCurve):
        listed = [curves]
        repeats = argument.count(_WHO, "rounds", 1 if rounds is None else rounds)
    else:
        listed, repeats = list(curves), 1
        if rounds is not None:
            raise ValueError(f"{_WHO}: rounds goes with one curve, not with a list of {len(listed)}.")
    if not listed:
        raise ValueError(f"{_WHO}: expected at least one curve, got none.")
    if accuracy is not None:
        accuracy = argument.positive_finite(_WHO, "accuracy", accuracy)
    parts: dict[int, tuple[PrivacyCurve, int]] = {}
    for curve in listed:
        if not isinstance(curve, PrivacyCurve):
            raise TypeError(f"{_WHO}: expected privacy curves as amplify gives them, got {curve!r}.")
        for part, times in curve.rounds():
            known = parts.get(id(part), (part, 0))[1]
            parts[id(part)] = part, known + times * repeats
    distinct = tuple(parts.values())
    if len(distinct) == 1 and distinct[0][1] == 1:
        return distinct[0][0]
    usual = ACCURACY_OF_MANY if len(distinct) > MANY else ACCURACY
    return ComposedCurve(_source(distinct), distinct, usual if accuracy is None else accuracy)


def _source(parts: tuple[tuple[PrivacyCurve, int], ...]) -> Source:
    def joined(words: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(word for word in words if word))

    curves = [curve for curve, _ in parts]
    rounds = sum(times for _, times in parts)
    # Attacks on different rounds may need different data of the same user: only equal rounds are attacked.
    single = curves[0].source.attack if len(parts) == 1 else None
    return Source(
        bound=joined(curve.bound for curve in curves),
        theorem=f"{rounds} rounds composed [VR Lemma 7.2], each by: " + joined(curve.theorem for curve in curves),
        messages=min(curve.messages for curve in curves),
        guarantee=all(curve.guarantee for curve in curves),
        note=joined(curve.note for curve in curves),
        users=max(curve.users for curve in curves),
        colluding=max(curve.source.colluding for curve in curves),
        some_inputs=any(curve.source.some_inputs for curve in curves),
        origin=joined(curve.source.origin for curve in curves),
        attack=None if single is None else RepeatedAttack(single, rounds, compose),
    )
