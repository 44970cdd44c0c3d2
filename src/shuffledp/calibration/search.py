"""The search for the most useful setting whose certified privacy curve meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shuffledp import argument
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.mechanism import Tuning
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.value import BoundValue

WHO = "calibrate"
RELATIVE = 2e-5
"""How closely the search brackets the last value that meets the target."""
RELATIVE_COMPOSED = 3e-4
"""The same for composed curves, which are slow to come by and not that sharp."""
RELATIVE_WHOLE = 1e-7
"""The same for whole numbers, whose neighbours are to be told apart."""
NEIGHBOUR = 1.001
"""The value this factor beyond the found one must miss the target."""
AHEAD = tuple(NEIGHBOUR * 1.01**step for step in range(41))
"""Looked at beyond the crossing too: a default that jumps with the setting may hide better again."""
GUESS_RELATIVE = 0.01
GUESS_ALONE = 1e-9
"""How closely the rough ε is brought to the target's, before a search and where there is none after it."""
ROUGHLY = 0.005
"""A multiple is checked where its rough log ε is at most this much above that of the crossing."""
NO_LIMIT, NOTHING = 1e15, 1e-30
"""Where a search without a limit of its own ends, and how small a value may become."""
SMALLEST = 5e-324
MOST_STEPS_BACK = 40
FIRST_STEP = 1e-9
"""The first step towards privacy, relative; each is four times the one before."""


@dataclass(frozen=True)
class Target:
    """The (ε, δ) that the shuffled output must satisfy."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", argument.positive_finite(WHO, "epsilon", self.epsilon))
        object.__setattr__(self, "delta", argument.open_probability(WHO, "delta", self.delta))

    def excess(self, curve: PrivacyCurve) -> float:
        """At most 0 exactly where the certified δ at ε is small enough; nearly linear in what the search turns."""
        delta = curve.delta(self.epsilon).upper
        if delta <= 0:
            return -math.inf
        score = _score(self.delta) - _score(delta)
        return min(score, 0.0) if delta <= self.delta else max(score, SMALLEST)

    def excess_of_epsilon(self, curve: PrivacyCurve) -> float:
        """The same by the certified ε at δ, which is the quicker of the two for a composed curve."""
        epsilon = curve.epsilon(self.delta).upper
        if epsilon <= 0:
            return -math.inf
        distance = math.log(epsilon / self.epsilon)
        return min(distance, 0.0) if epsilon <= self.epsilon else max(distance, SMALLEST)

    def met(self, value: BoundValue) -> bool:
        """Whether a certified ε at δ is small enough."""
        return value.upper <= self.epsilon


def _step_for(shortfall: float) -> int:
    """The step that is an eighth of what ε lacks: ε falls faster than the local ε, and no step may be too large."""
    return max(0, math.floor(math.log(max(shortfall, FIRST_STEP) / (8 * FIRST_STEP), 4)))


def _score(delta: float) -> float:
    """√(2·log(1/δ)): for a Gaussian tail this is ε over the scale of the noise."""
    return math.sqrt(max(0.0, -2.0 * math.log(delta)))


@dataclass(frozen=True)
class Found:
    """A setting whose curve was checked against the target."""

    value: float
    """A whole number where the setting is one."""
    curve: PrivacyCurve
    epsilon: BoundValue
    """The central ε at the target's δ."""
    limit: str
    """Why no more useful value was looked at; empty where the next one misses the target."""


@dataclass(frozen=True)
class _Scale:
    """A setting as a positive position that grows towards less privacy, so that a search may step by factors."""

    tuning: Tuning

    def value(self, position: float) -> float:
        """The setting at a position; whole settings are rounded towards privacy."""
        tuning = self.tuning
        if tuning.below_one:
            return min(max(1 - 1 / position, tuning.least), tuning.most)
        size = 1 / position if tuning.more_is_more_private else position
        if not tuning.whole:
            return min(max(size, tuning.least), tuning.most)
        whole = math.ceil(size) if tuning.more_is_more_private else math.floor(size)
        return int(tuning.least) + max(whole, 1) - 1

    def position(self, value: float) -> float:
        tuning = self.tuning
        if tuning.below_one:
            return 1 / (1 - value)
        size = min(value - tuning.least + 1 if tuning.whole else value, NO_LIMIT)
        return 1 / max(size, NOTHING) if tuning.more_is_more_private else size

    @property
    def ends(self) -> tuple[float, float]:
        """The positions of most and of least privacy."""
        low, high = sorted([self.position(self.tuning.least), self.position(self.tuning.most)])
        return low, high

    @property
    def most_useful(self) -> float:
        """The setting at the end of least privacy."""
        end = self.tuning.least if self.tuning.more_is_more_private else self.tuning.most
        return end if math.isfinite(end) else self.value(self.ends[1])


class Search:
    """Turns one setting until its curve just meets a target.

    Every value that is returned has been checked by its own certified curve. Privacy is taken to be monotone in the
    setting; where it is only nearly so (a default that jumps with the setting), the value is the last one that meets
    the target as far as the search looked: what is one part in a thousand beyond a value that is not whole misses the
    target, and so does what ``rough``, a quick guess at log ε, points at up to half as much again.
    """

    def __init__(
        self,
        curve_at: Callable[[float], PrivacyCurve],
        rough: Callable[[float], float],
        tuning: Tuning,
        target: Target,
        *,
        composed: bool = False,
    ) -> None:
        self.curve_at = curve_at
        self.rough = rough
        self.scale = _Scale(tuning)
        self.target = target
        self.measure = target.excess_of_epsilon if composed else target.excess
        self.relative = RELATIVE_WHOLE if tuning.whole else RELATIVE_COMPOSED if composed else RELATIVE
        self.seen: dict[float, float] = {}
        self.refused: dict[float, str] = {}

    @property
    def tuning(self) -> Tuning:
        return self.scale.tuning

    def excess(self, position: float) -> float:
        """How far the curve at a position misses the target, each value computed once."""
        value = self.scale.value(position)
        if value not in self.seen:
            self.seen[value] = self._fresh(value)
        return self.seen[value]

    def _fresh(self, value: float) -> float:
        try:
            curve = self.curve_at(value)
            found = self.measure(curve)
        except NotApplicable:
            return math.inf
        except ValueError as error:
            # The mechanism refuses values with which it would tell nothing, at the end of most privacy.
            self.refused[value] = str(error)
            return -math.inf
        if not curve.guarantee:
            raise ValueError(f"{WHO}: bound must be a guarantee, got {curve.bound}: {curve.note}")
        return found

    def run(self) -> Found:
        """The most useful value, or a sentence why there is none."""
        low, high = self.scale.ends
        below, above = self._crossing(low, high, self._guess(low, high))
        if not self.tuning.whole:
            below, above = self._beyond_jumps(below, above, high)
        limit = ""
        if above == high and self.excess(high) <= 0:
            below, limit = high, f"{self.tuning.name} was not searched beyond {self.scale.value(high):g}."
        return self._checked(below, limit)

    def guess(self) -> float:
        """The value where the rough ε is the target's, unproved."""
        low, high = self.scale.ends
        position = self._guess(low, high, absolute=GUESS_ALONE)
        # A search that ends beside the end has found no crossing before it.
        return self.scale.most_useful if position >= high * (1 - 4 * GUESS_ALONE) else self.scale.value(position)

    def _guess(self, low: float, high: float, absolute: float = GUESS_RELATIVE) -> float:
        """Where the rough ε is the target's."""
        aim = math.log(self.target.epsilon)

        def excess(log_position: float) -> float:
            return self.rough(self.scale.value(math.exp(log_position))) - aim

        found = find_crossing(excess, math.log(low), math.log(high), absolute=absolute)
        return math.exp(found.middle)

    def _crossing(self, low: float, high: float, start: float) -> tuple[float, float]:
        found = find_crossing(self.excess, low, high, guess=start, relative=self.relative)
        return found.below, found.above

    def _beyond_jumps(self, below: float, above: float, high: float) -> tuple[float, float]:
        """Search on from the farthest multiple that meets the target, until none does."""
        while (farthest := self._farthest(below, high)) is not None:
            below, above = self._crossing(farthest, high, farthest * NEIGHBOUR)
        return below, above

    def _farthest(self, below: float, high: float) -> float | None:
        """The farthest multiple of a position that still meets the target."""
        most = self.rough(self.scale.value(below)) + ROUGHLY
        for factor in reversed(AHEAD):
            position = below * factor
            promising = factor == NEIGHBOUR or self.rough(self.scale.value(position)) <= most
            if position < high and promising and self.excess(position) <= 0:
                return position
        return None

    def _checked(self, position: float, limit: str) -> Found:
        """The value at a position or a hair towards privacy, as soon as the certified ε itself meets the target."""
        least, step = self.scale.ends[0], 0
        while step < MOST_STEPS_BACK:
            value = self.scale.value(position)
            if value in self.refused:
                break
            if self.excess(position) <= 0:
                curve = self.curve_at(value)
                epsilon = curve.epsilon(self.target.delta)
                if self.target.met(epsilon):
                    return Found(value, curve, epsilon, limit)
                step = max(step, _step_for(epsilon.upper / self.target.epsilon - 1))
            if position <= least:
                break
            position = max(least, self._step_back(position, step))
            step += 1
        raise self._none()

    def _step_back(self, position: float, step: int) -> float:
        if not self.tuning.whole:
            return position * (1 - min(0.5, FIRST_STEP * 4.0**step))
        value = self.scale.value(position)
        return self.scale.position(value + 1 if self.tuning.more_is_more_private else value - 1)

    def _none(self) -> ValueError:
        tuning, target = self.tuning, self.target
        if self.refused and len(self.refused) == len(self.seen):
            return ValueError(next(iter(self.refused.values())))
        reason = f"no {tuning.name} from {tuning.least:g} to {tuning.most:g} is proved to give "
        reason += f"ε = {target.epsilon:g} at δ = {target.delta:g}."
        for refusal in list(self.refused.values())[-1:]:
            reason += f" {refusal}"
        return NotApplicable(WHO, reason)
