"""The one search: the most useful setting whose certified privacy curve meets a target, whatever the target limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from shuffledp.calibration.target import WHO, CurveTarget, Excess, Reached
from shuffledp.errors import NotApplicable
from shuffledp.mechanisms.parts.published import NAME as PRINTED
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.root import find_crossing
from shuffledp.privacy.curve import PrivacyCurve

NEIGHBOUR = 1.001
"""The value this factor beyond the found one must miss the target."""
AHEAD = tuple(NEIGHBOUR * 1.01**step for step in range(41))
"""Looked at beyond the crossing too: a default that jumps with the setting may hide better again."""
ON_THE_WAY = (0.25, 0.5, 0.9)
"""Where, by logarithms, a rough guess is asked whether it knows the setting."""
SPARSELY = 10
"""Every so many of them are looked at where no rough guess tells which ones may."""
GUESS_RELATIVE = 0.01
GUESS_ALONE = 1e-9
"""How closely the rough distance to the target is brought to 0, before a search and where there is none after it."""
ROUGHLY = 0.005
"""A multiple is checked where its rough log deviation is at most this much above that of the crossing."""
NO_LIMIT, NOTHING = 1e15, 1e-30
"""Where a search without a limit of its own ends, and how small a value may become."""
MOST_STEPS_BACK = 40
LEAST_GAIN = 1e-3
"""Where a better bound takes less than this share off the deviation of the loss, nothing is searched again."""
FIRST_STEP = 1e-9
"""The first step towards privacy, relative; each is four times the one before."""


def _step_for(shortfall: float) -> int:
    """The step that is an eighth of what is lacking: ε falls faster than the local ε, and no step may be too large."""
    return max(0, math.floor(math.log(max(shortfall, FIRST_STEP) / (8 * FIRST_STEP), 4)))


def _log_ratio(first: float | None, second: float | None) -> float | None:
    """log(first/second), None where either is not known."""
    return math.log(first / second) if first and second else None


@dataclass(frozen=True)
class Found:
    """A setting whose curve was checked against the target."""

    value: float
    """A whole number where the setting is one."""
    curve: PrivacyCurve
    reached: Reached
    """The certified number that the target limits."""
    limit: str
    """Why no more useful value was looked at; empty where the next one misses the target."""


@dataclass(frozen=True)
class _Seen:
    """A value that was looked at; no curve where the mechanism refused it."""

    curve: PrivacyCurve | None
    excess: Excess
    position: float


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
    target, and so does what ``rough``, a quick guess at the log deviation of the loss, points at up to half as much
    again (a few values there where it points at none).
    """

    def __init__(
        self,
        curve_at: Callable[[float], PrivacyCurve],
        rough: Callable[[float], float],
        tuning: Tuning,
        target: CurveTarget,
        *,
        composed: bool = False,
    ) -> None:
        self.curve_at = curve_at
        self.rough = rough
        self.scale = _Scale(target.range_of(tuning))
        self.target = target
        self.composed = composed
        sharpness = target.sharpness
        self.relative = sharpness.whole if tuning.whole else sharpness.composed if composed else sharpness.real
        self.seen: dict[float, _Seen] = {}
        self.refused: dict[float, str] = {}

    @property
    def tuning(self) -> Tuning:
        return self.scale.tuning

    def excess(self, position: float) -> float:
        """How far the curve at a position misses the target."""
        return self._at(position).excess.size

    def _at(self, position: float) -> _Seen:
        """What is known at a position, each value computed once."""
        value = self.scale.value(position)
        if value not in self.seen:
            self.seen[value] = self._fresh(value, position)
        return self.seen[value]

    def _fresh(self, value: float, position: float) -> _Seen:
        try:
            curve = self.curve_at(value)
            found = self.target.excess(curve, composed=self.composed)
        except NotApplicable:
            return _Seen(None, Excess(math.inf), position)
        except ValueError as error:
            # The mechanism refuses values with which it would tell nothing, at the end of most privacy, or values that
            # are too large for it, beyond some that it takes.
            self.refused[value] = str(error)
            return _Seen(None, Excess(math.inf if self._takes_less_than(position) else -math.inf), position)
        if not curve.guarantee and curve.bound != PRINTED:
            raise ValueError(f"{WHO}: bound must be a guarantee, got {curve.bound}: {curve.note}")
        return _Seen(curve, found, position)

    def _takes_less_than(self, position: float) -> bool:
        """Whether the mechanism takes a value of more privacy; the end of most privacy of a count may be endless."""
        if any(seen.curve is not None and seen.position < position for seen in self.seen.values()):
            return True
        least = self.scale.ends[0]
        return not self.tuning.whole and least < position and self._at(least).curve is not None

    def run(self) -> Found:
        """The most useful value, or a sentence why there is none."""
        low, high = self.scale.ends
        return self._between(low, high, self._start(low, high))

    def _between(self, low: float, high: float, start: float) -> Found:
        below, above = self._crossing(low, high, start)
        if not self.tuning.whole:
            below, above = self._beyond_jumps(below, above, high)
        limit = ""
        if above == high and self.excess(high) <= 0:
            below, limit = high, f"{self.tuning.name} was not searched beyond {self.scale.value(high):g}."
        return self._checked(below, limit)

    def beyond(self, known: Found) -> Found:
        """The most useful value, where one is known that a worse bound has proved to meet the target."""
        low, high = self.scale.position(known.value), self.scale.ends[1]
        if not low < high or not self.excess(low) < 0:
            return known
        curve = self._at(low).curve
        gain = None if curve is None else _log_ratio(curve.loss_deviation(), known.curve.loss_deviation())
        if gain is not None and gain > -LEAST_GAIN:
            return known
        start = low * NEIGHBOUR if gain is None else self._where(low, high, self.rough(known.value) - gain)
        try:
            return self._between(low, high, start)
        except NotApplicable:
            return known

    def _where(self, low: float, high: float, level: float) -> float:
        """Where the rough log deviation comes to a level."""

        def excess(log_position: float) -> float:
            return self.rough(self.scale.value(math.exp(log_position))) - level

        return math.exp(find_crossing(excess, math.log(low), math.log(high), absolute=GUESS_RELATIVE).middle)

    def guess(self) -> float:
        """The value where the rough distance to the target is 0, unproved."""
        low, high = self.scale.ends
        position = self._guess(low, high, absolute=GUESS_ALONE)
        # A search that ends beside the end has found no crossing before it.
        return self.scale.most_useful if position >= high * (1 - 4 * GUESS_ALONE) else self.scale.value(position)

    def _start(self, low: float, high: float) -> float:
        first = self.target.start(self.tuning)
        if first is not None:
            return self.scale.position(first)
        return math.sqrt(low * high) if self._from_the_middle else self._guess(low, high)

    @cached_property
    def _silent(self) -> bool:
        """Whether the rough guess does not know the setting: it is the same all the way."""
        return not self.tuning.whole and len(set(self._on_the_way)) == 1

    @property
    def _from_the_middle(self) -> bool:
        """Where it is silent, that is as good as any end, and factors lead to either; where it cannot even be asked,
        the end of least noise is quick, and much noise takes long."""
        return self._silent and math.isfinite(self._on_the_way[0])

    @cached_property
    def _on_the_way(self) -> list[float]:
        """The rough guess at some places between the ends, at which not everything can be made."""
        low, high = self.scale.ends
        return [self.rough(self.scale.value(low * (high / low) ** share)) for share in ON_THE_WAY]

    def _guess(self, low: float, high: float, absolute: float = GUESS_RELATIVE) -> float:
        """Where the rough distance to the target is 0."""

        def excess(log_position: float) -> float:
            return self.target.rough_excess(self.rough(self.scale.value(math.exp(log_position))))

        found = find_crossing(excess, math.log(low), math.log(high), absolute=absolute)
        return math.exp(found.middle)

    def _crossing(self, low: float, high: float, start: float) -> tuple[float, float]:
        if self.tuning.whole or not (self.target.by_factors or self._from_the_middle):
            found = find_crossing(self.excess, low, high, guess=start, relative=self.relative)
            return found.below, found.above
        ends = math.log(low), math.log(high)
        found = find_crossing(
            lambda x: self.excess(math.exp(x)), *ends, guess=math.log(start), relative=0.0, absolute=self.relative
        )
        below = low if found.below == ends[0] else math.exp(found.below)
        return below, high if found.above == ends[1] else math.exp(found.above)

    def _beyond_jumps(self, below: float, above: float, high: float) -> tuple[float, float]:
        """Search on from the farthest multiple that meets the target, until none does."""
        while (farthest := self._farthest(below, high)) is not None:
            below, above = self._crossing(farthest, high, farthest * NEIGHBOUR)
        return below, above

    def _farthest(self, below: float, high: float) -> float | None:
        """The farthest multiple of a position that still meets the target."""
        most = self.rough(self.scale.value(below)) + ROUGHLY
        for factor in reversed(AHEAD[:: SPARSELY if self._silent else 1]):
            position = below * factor
            promising = factor == NEIGHBOUR or self.rough(self.scale.value(position)) <= most
            if position < high and promising and self.excess(position) <= 0:
                return position
        return None

    def _checked(self, position: float, limit: str) -> Found:
        """The value at a position or a hair towards privacy, as soon as the certified number itself is met."""
        least, step = self.scale.ends[0], 0
        while step < MOST_STEPS_BACK:
            seen, value = self._at(position), self.scale.value(position)
            if value in self.refused:
                break
            if seen.curve is not None and seen.excess.size <= 0:
                reached = seen.excess.reached or self.target.reached(seen.curve)
                if self.target.met(reached):
                    return Found(value, seen.curve, reached, limit)
                step = max(step, _step_for(self.target.shortfall(reached)))
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
        tuning = self.tuning
        if self.refused and len(self.refused) == len(self.seen):
            return ValueError(next(iter(self.refused.values())))
        reason = f"no {tuning.name} from {tuning.least:g} to {tuning.most:g} is proved to give "
        reason += f"{self.target}."
        for refusal in list(self.refused.values())[-1:]:
            reason += f" {refusal}"
        return NotApplicable(WHO, reason)
