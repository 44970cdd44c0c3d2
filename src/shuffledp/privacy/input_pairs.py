"""Privacy between two chosen inputs, or between all inputs within a distance, of a metric mechanism."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from flint import arb, ctx, fmpq

from shuffledp._core.errors import NumericalError
from shuffledp._core.results_and_value_objects import ValueObject
from shuffledp.numerics.ball_arithmetic import precision, round_up
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.randomizer_interface import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

NEIGHBOUR_BITS = 192
MAX_LINES = 40
"""Number of distinct ratios to the hiding law for either input; more cost time and change the fifth digit of ε."""
MAX_CLASSES = 160
"""Up to this many classes none are merged."""
MAX_SAME_INPUT_RATIO = 1 + 1e-6
MIN_RATIO, MIN_BETA_SHARE = 1 + 1e-12, 1e-6
"""Least ratio p, and least β relative to its maximum: parameters of nearly equal inputs are raised to these."""
RATIO_BINS = 40
"""Groups of messages from the least to the largest ratio."""
ZERO_CLASS = MessageClass(arb(0), arb(0), arb(0))
RATIO_TOLERANCE = 1e-12
LINE_OFFSET = 1e-11
"""Relative distance of a line from ratios that are equal up to rounding."""


@dataclass(frozen=True)
class Neighbours(Randomizer):
    """The parameters, blankets and attacks of some pairs of inputs; the other users may hold any values.

    Args:
        parameters: Variation-ratio parameters that hold for all of these pairs.
        blanket_pairs: Pairs against the privacy blanket.
        attack_pairs: Exact pairs of constructed datasets.
        mechanism: The mechanism of these inputs; a guarantee for all of its inputs holds for these.
    """

    parameters: VariationRatio
    blanket_pairs: tuple[HidingPair, ...]
    attack_pairs: tuple[HidingPair, ...] = ()
    mechanism: Randomizer | None = None

    def variation_ratio(self) -> VariationRatio:
        return self.parameters

    def blankets(self) -> Sequence[HidingPair]:
        return self.blanket_pairs

    def attacks(self) -> Sequence[HidingPair]:
        return self.attack_pairs


def neighbours_from_pair(classes: Callable[[], Classes], attacks: Sequence[HidingPair] = ()) -> Neighbours:
    """Returns the neighbours of two inputs from their exact laws and a law below all others (``hiding``), by class.

    Theorem: sound reduction [VR §4, corrected] and privacy blanket [PB], both for one pair of inputs.
    Requires: ``hiding`` is at most the law of every input, and positive wherever one of the two is.
    Returns: parameters rounded up, and the pair against the blanket with classes merged so that G only grows in convex
    order. For inputs that differ by less than a millionth the parameters stand for the pair.

    Args:
        classes: Function that returns the message classes at the working precision.
        attacks: Exact pairs of constructed datasets.
    """
    with precision(NEIGHBOUR_BITS):
        parameters, corners = _parameters(_nonzero_classes(classes)), _RatioGrid.from_classes(_nonzero_classes(classes))
    if parameters.p < MAX_SAME_INPUT_RATIO:
        # With one q for all classes the pair is the same at every ε.
        even = VariationRatio(parameters.p, parameters.beta, parameters.largest_ratio)
        return Neighbours(parameters, (even.pair(0.0),))
    return Neighbours(parameters, (HidingPair(_SplitClasses(classes, corners), symmetric=False),), tuple(attacks))


def _nonzero_classes(classes: Callable[[], Classes]) -> list[MessageClass]:
    """Returns the classes that either input can send."""
    return [c for c in classes() if not (c.first.is_zero() and c.second.is_zero())]


def identical_neighbours() -> Neighbours:
    """Returns the neighbours of two inputs with the same law."""
    least_ratio = math.nextafter(1.0, 2.0)
    return Neighbours(VariationRatio(least_ratio, 0.0, least_ratio), (exact_pair([(fmpq(1),) * 3], symmetric=True),))


def build_attack(classes: Callable[[], Classes]) -> HidingPair:
    """Returns an attack on the messages, or on groups with about the same two ratios to the others' law (``hiding``).

    Merging messages only weakens the attack, so its result is a lower bound.
    """
    with precision(NEIGHBOUR_BITS):
        listed = classes()
        places = _group_classes(listed) if len(listed) > MAX_CLASSES else range(len(listed))
    return HidingPair(_GroupedClasses(classes, places), symmetric=False)


def _group_classes(classes: Classes) -> Sequence[object]:
    """Returns the group of each class, evenly spaced in the logarithms of the two ratios."""
    axes = []
    for ratios in ([c.first / c.hiding for c in classes], [c.second / c.hiding for c in classes]):
        logs = [float(ratio.log().mid()) for ratio in ratios]
        low, width = min(logs), max(max(logs) - min(logs), math.ulp(1.0))
        axes.append([round((log - low) / width * RATIO_BINS) for log in logs])
    return tuple(zip(*axes, strict=True))


def neighbours_from_parameters(p: float, beta: float, q: float) -> Neighbours:
    """Returns the privacy of pairs of inputs of which only the parameters are known.

    Args:
        p: Largest ratio of the two laws.
        beta: Largest total variation of the two laws.
        q: Largest ratio of one of the two laws to another user's.
    """
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
    # Raising both is sound and keeps the parameters away from the limits of floats.
    p = max(p, MIN_RATIO)
    most = (p - 1) / (p + 1)
    return VariationRatio(p, min(max(round_up(beta), MIN_BETA_SHARE * most), most), (max(q0, p), max(q1, p)))


@dataclass(frozen=True)
class _RatioGrid:
    """A grid in the plane of the two ratios to the hiding law; each class is split between the corners around it.

    G is linear in the two ratios. A split that preserves the total hiding, first and second masses makes G larger in
    convex order at every ε at once, so every divergence can only grow.
    """

    lines: tuple[tuple[float, ...], tuple[float, ...]]

    @classmethod
    def from_classes(cls, classes: Classes) -> _RatioGrid | None:
        """Returns the grid, or None if there are few classes."""
        if len(classes) <= MAX_CLASSES:
            return None
        first = [float((c.first / c.hiding).mid()) for c in classes]
        second = [float((c.second / c.hiding).mid()) for c in classes]
        return cls((tuple(_place_lines(first)), tuple(_place_lines(second))))

    def split_classes(self, classes: Classes) -> list[MessageClass]:
        mass: dict[tuple[float, float], arb] = {}
        for c in classes:
            for x, share in self._lines_around(0, c.first / c.hiding):
                for y, part in self._lines_around(1, c.second / c.hiding):
                    mass[x, y] = mass.get((x, y), arb(0)) + c.hiding * share * part
        return [MessageClass(weight * arb(x), weight * arb(y), weight) for (x, y), weight in mass.items()]

    def _lines_around(self, axis: int, ratio: arb) -> tuple[tuple[float, arb], tuple[float, arb]]:
        """Returns the two lines around a ratio and the shares that preserve its mean; both are certainly positive."""
        lines = self.lines[axis]
        place = bisect(lines, float(ratio.mid()))
        left, right = lines[place - 1], lines[place]
        share = (ratio - arb(left)) / (arb(right) - arb(left))
        if not (share > 0 and share < 1):
            raise NumericalError(
                f"Neighbours: a ratio cannot be distinguished from {left!r} or {right!r}; please report."
            )
        return (left, 1 - share), (right, share)


@dataclass(frozen=True)
class _PrecisionCachedClasses(ValueObject, ABC):
    """Classes computed from others and cached for each precision.

    They are needed again at every ε, mostly at one precision; below NEIGHBOUR_BITS they could not be distinguished.
    """

    classes: Callable[[], Classes]

    def __call__(self) -> Classes:
        bits = max(NEIGHBOUR_BITS, ctx.prec)
        if bits not in self._classes_by_precision:
            with precision(bits):
                self._classes_by_precision[bits] = self._compute_classes()
        return self._classes_by_precision[bits]

    @cached_property
    def _classes_by_precision(self) -> dict[int, Classes]:
        return {}

    @abstractmethod
    def _compute_classes(self) -> Classes:
        """Computes the classes at the working precision."""


@dataclass(frozen=True)
class _SplitClasses(_PrecisionCachedClasses):
    """The classes that either input can send, split between corners if there are many, and the revealed rest."""

    corners: _RatioGrid | None

    def _compute_classes(self) -> Classes:
        nonzero = _nonzero_classes(self.classes)
        rest = 1 - sum((c.hiding for c in nonzero), arb(0))
        result = nonzero if self.corners is None else self.corners.split_classes(nonzero)
        return [*result, MessageClass(arb(0), arb(0), rest)] if rest > 0 else result


@dataclass(frozen=True)
class _GroupedClasses(_PrecisionCachedClasses):
    """Merged classes: ``places`` has the group of each."""

    places: Sequence[object]

    def _compute_classes(self) -> Classes:
        groups: dict[object, MessageClass] = {}
        for place, c in zip(self.places, self.classes(), strict=True):
            before = groups.get(place, ZERO_CLASS)
            sums = (x + y for x, y in zip(before, c, strict=True))
            groups[place] = MessageClass(*sums)
        return list(groups.values())


def _place_lines(ratios: Sequence[float]) -> list[float]:
    """Returns numbers that span the ratios and equal none of them: close to each, or evenly spaced in the logarithm."""
    distinct: list[float] = []
    for ratio in sorted(ratios):
        if not distinct or ratio > distinct[-1] * (1 + RATIO_TOLERANCE):
            distinct.append(ratio)
    if 2 * len(distinct) <= MAX_LINES:
        return [ratio * (1 + side) for ratio in distinct for side in (-LINE_OFFSET, LINE_OFFSET)]
    low, high = distinct[0] * (1 - LINE_OFFSET), max(ratios) * (1 + LINE_OFFSET)
    inner = [low * math.exp(math.log(high / low) * i / (MAX_LINES - 1)) for i in range(1, MAX_LINES - 1)]
    return [low, *(_move_off_ratios(line, distinct) for line in inner), high]


def _move_off_ratios(line: float, distinct: Sequence[float]) -> float:
    """Moves the line by small steps until no ratio lies on it."""
    while True:
        place = bisect(distinct, line)
        if all(abs(ratio / line - 1) > LINE_OFFSET for ratio in distinct[max(0, place - 2) : place + 2]):
            return line
        line *= 1 + 4 * LINE_OFFSET
