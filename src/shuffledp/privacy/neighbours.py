"""Privacy between chosen inputs only: what a metric mechanism offers to a bound for one pair, or for all near pairs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from flint import arb, ctx, fmpq

from shuffledp.errors import NumericalError
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.pair import Classes, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.record import Record
from shuffledp.privacy.variation_ratio import VariationRatio

BITS = 192
MOST_LINES = 40
"""Different ratios to the hiding law that are kept for either input; more cost time and change the fifth digit of ε."""
MOST_CLASSES = 160
"""Up to this many classes nothing is put together."""
NEARLY_SAME = 1 + 1e-6
LEAST_RATIO, LEAST_SHARE = 1 + 1e-12, 1e-6
"""Where two inputs count as nearly the same, and how near the parameters of two inputs may be to those of one."""
BINS = 40
"""Groups of messages from the least to the largest ratio."""
NOTHING = MessageClass(arb(0), arb(0), arb(0))
SAME = 1e-12
BESIDE = 1e-11
"""Ratios that are equal up to rounding, and how far from them a line is drawn."""


@dataclass(frozen=True)
class Neighbours(Randomizer):
    """The parameters, blankets and attacks of some pairs of inputs; the other users may still hold anything."""

    parameters: VariationRatio
    pairs: tuple[HidingPair, ...]
    attacking: tuple[HidingPair, ...] = ()
    mechanism: Randomizer | None = None
    """Whose inputs they are: what holds for all of its inputs holds for these."""

    def variation_ratio(self) -> VariationRatio:
        return self.parameters

    def blankets(self) -> Sequence[HidingPair]:
        return self.pairs

    def attacks(self) -> Sequence[HidingPair]:
        return self.attacking


def of_one_pair(classes: Callable[[], Classes], attacks: Sequence[HidingPair] = ()) -> Neighbours:
    """Two inputs by their exact laws and a law below everyone's (``hiding``), class by class.

    Theorem: sound reduction [VR §4, corrected] and privacy blanket [PB], both for one pair of inputs.
    Requires: ``hiding`` is at most the law of every input, and positive wherever one of the two is.
    Returns: parameters rounded up, and the pair against the blanket with classes put together so that G only grows in
    convex order. For inputs that differ by less than a millionth the parameters stand for the pair.
    """

    with precision(BITS):
        parameters, corners = _parameters(_told(classes)), _Corners.of(_told(classes))
    if parameters.p < NEARLY_SAME:
        # With one q for all classes the pair is the same at every ε.
        even = VariationRatio(parameters.p, parameters.beta, parameters.largest_ratio)
        return Neighbours(parameters, (even.pair(0.0),))
    return Neighbours(parameters, (HidingPair(_KeptClasses(classes, corners), symmetric=False),), tuple(attacks))


def _told(classes: Callable[[], Classes]) -> list[MessageClass]:
    """The classes that either input can send."""
    return [c for c in classes() if not (c.first.is_zero() and c.second.is_zero())]


def identical() -> Neighbours:
    """Two inputs with one and the same law."""
    barely = math.nextafter(1.0, 2.0)
    return Neighbours(VariationRatio(barely, 0.0, barely), (exact_pair([(fmpq(1),) * 3], symmetric=True),))


def attack_of(classes: Callable[[], Classes]) -> HidingPair:
    """An attacker who looks at the messages, or at groups of about the same two ratios to the crowd's law (``hiding``).

    Putting messages together only takes from the attacker, so that what it attains is a lower bound.
    """
    with precision(BITS):
        told = classes()
        places = _bins(told) if len(told) > MOST_CLASSES else range(len(told))
    return HidingPair(_GroupedClasses(classes, places), symmetric=False)


def _bins(classes: Classes) -> Sequence[object]:
    """The group of each class: evenly spaced in the logarithms of the two ratios."""
    axes = []
    for ratios in ([c.first / c.hiding for c in classes], [c.second / c.hiding for c in classes]):
        logs = [float(ratio.log().mid()) for ratio in ratios]
        low, width = min(logs), max(max(logs) - min(logs), math.ulp(1.0))
        axes.append([round((log - low) / width * BINS) for log in logs])
    return tuple(zip(*axes, strict=True))


def of_parameters(p: float, beta: float, q: float) -> Neighbours:
    """Pairs of which only the worst ratio, total variation and ratio to the others are known."""
    parameters = VariationRatio(p=p, beta=min(beta, (p - 1) / (p + 1)), q=q)
    return Neighbours(parameters, (parameters.pair(0.0),))


def _parameters(classes: Classes) -> VariationRatio:
    p, q0, q1, beta = 1.0, 1.0, 1.0, arb(0)
    for c in classes:
        p = max(p, round_up(c.first / c.second), round_up(c.second / c.first))
        gap = c.first - c.second
        if not gap < 0:
            q0, beta = max(q0, round_up(c.first / c.hiding)), beta + gap.max(arb(0))
        if not gap > 0:
            q1 = max(q1, round_up(c.second / c.hiding))
    # Raising both is sound, and keeps the parameters apart from the edge of the floats.
    p = max(p, LEAST_RATIO)
    most = (p - 1) / (p + 1)
    return VariationRatio(p, min(max(round_up(beta), LEAST_SHARE * most), most), (max(q0, p), max(q1, p)))


@dataclass(frozen=True)
class _Corners:
    """A grid in the plane of the two ratios to the hiding law; each class is split between the corners around it.

    G is linear in the two ratios. A split that keeps hiding, first and second in all makes G larger in convex order at
    every ε at once, so that every divergence can only grow.
    """

    lines: tuple[tuple[float, ...], tuple[float, ...]]

    @classmethod
    def of(cls, classes: Classes) -> _Corners | None:
        """None where there are few classes."""
        if len(classes) <= MOST_CLASSES:
            return None
        first = [float((c.first / c.hiding).mid()) for c in classes]
        second = [float((c.second / c.hiding).mid()) for c in classes]
        return cls((tuple(_lines(first)), tuple(_lines(second))))

    def divided(self, classes: Classes) -> list[MessageClass]:
        mass: dict[tuple[float, float], arb] = {}
        for c in classes:
            for x, share in self._around(0, c.first / c.hiding):
                for y, part in self._around(1, c.second / c.hiding):
                    mass[x, y] = mass.get((x, y), arb(0)) + c.hiding * share * part
        return [MessageClass(weight * arb(x), weight * arb(y), weight) for (x, y), weight in mass.items()]

    def _around(self, axis: int, ratio: arb) -> tuple[tuple[float, arb], tuple[float, arb]]:
        """The two lines around a ratio and the shares that keep its mean; both are certainly positive."""
        lines = self.lines[axis]
        place = bisect(lines, float(ratio.mid()))
        left, right = lines[place - 1], lines[place]
        share = (ratio - arb(left)) / (arb(right) - arb(left))
        if not (share > 0 and share < 1):
            raise NumericalError(f"Neighbours: a ratio cannot be told from {left!r} or {right!r}; please report.")
        return (left, 1 - share), (right, share)


@dataclass(frozen=True)
class _AtAnyPrecision(Record, ABC):
    """Classes made from others, once for each precision.

    Every ε asks again, mostly at one precision; at less than BITS the classes could not be told apart.
    """

    classes: Callable[[], Classes]

    def __call__(self) -> Classes:
        bits = max(BITS, ctx.prec)
        if bits not in self._known:
            with precision(bits):
                self._known[bits] = self._made()
        return self._known[bits]

    @cached_property
    def _known(self) -> dict[int, Classes]:
        return {}

    @abstractmethod
    def _made(self) -> Classes:
        """At the working precision."""


@dataclass(frozen=True)
class _KeptClasses(_AtAnyPrecision):
    """What either input can send, divided between corners where there are many, and the revealed rest."""

    corners: _Corners | None

    def _made(self) -> Classes:
        all_told = _told(self.classes)
        rest = 1 - sum((c.hiding for c in all_told), arb(0))
        result = all_told if self.corners is None else self.corners.divided(all_told)
        return [*result, MessageClass(arb(0), arb(0), rest)] if rest > 0 else result


@dataclass(frozen=True)
class _GroupedClasses(_AtAnyPrecision):
    """Classes put together: ``places`` has the group of each."""

    places: Sequence[object]

    def _made(self) -> Classes:
        groups: dict[object, MessageClass] = {}
        for place, c in zip(self.places, self.classes(), strict=True):
            before = groups.get(place, NOTHING)
            sums = (x + y for x, y in zip(before, c, strict=True))
            groups[place] = MessageClass(*sums)
        return list(groups.values())


def _lines(ratios: Sequence[float]) -> list[float]:
    """Numbers that span the ratios and meet none of them: just around each, or evenly spaced in the logarithm."""
    different: list[float] = []
    for ratio in sorted(ratios):
        if not different or ratio > different[-1] * (1 + SAME):
            different.append(ratio)
    if 2 * len(different) <= MOST_LINES:
        return [ratio * (1 + side) for ratio in different for side in (-BESIDE, BESIDE)]
    low, high = different[0] * (1 - BESIDE), max(ratios) * (1 + BESIDE)
    inner = [low * math.exp(math.log(high / low) * i / (MOST_LINES - 1)) for i in range(1, MOST_LINES - 1)]
    return [low, *(_off(line, different) for line in inner), high]


def _off(line: float, different: Sequence[float]) -> float:
    """The line, moved by a hair as long as a ratio is on it."""
    while True:
        place = bisect(different, line)
        if all(abs(ratio / line - 1) > BESIDE for ratio in different[max(0, place - 2) : place + 2]):
            return line
        line *= 1 + 4 * BESIDE
