"""``calibrate``: the most useful setting that meets a target, a central (ε, δ) or a limit on attacks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.results_and_value_objects import PrintableResult, Row
from shuffledp.bounds import pointwise_minimum, registry
from shuffledp.bounds.participation import Participation, parse_rate
from shuffledp.calibration.targets import CALIBRATE, CurveTarget, Excess, Target, TargetValue
from shuffledp.mechanisms.base.law import PUBLISHED_BOUND_NAME as PRINTED
from shuffledp.mechanisms.base.mechanism import Mechanism, TunableParameter
from shuffledp.numerics.roots import find_crossing
from shuffledp.privacy.attack_risk import Risk
from shuffledp.privacy.composition import compose
from shuffledp.privacy.curve import BoundValue, PrivacyCurve
from shuffledp.privacy.randomizer_interface import HasAggregateLoss, HasNoisyMessages, HasParts, Randomizer

# --- Search ---


NEXT_VALUE_FACTOR = 1.001
"""The value beyond the result by this factor must miss the target."""
JUMP_FACTORS = tuple(NEXT_VALUE_FACTOR * 1.01**step for step in range(41))
"""Factors beyond the crossing that are also tried: a default that jumps with the setting may hide better again."""
PROBE_POSITIONS = (0.25, 0.5, 0.9)
"""Positions, in logarithms, at which the rough estimate is tested for depending on the setting."""
SPARSE_STRIDE = 10
"""Without a useful rough estimate, one of this many factors is tried."""
SEARCH_GUESS_TOLERANCE = 0.01
GUESS_TOLERANCE = 1e-9
"""Accuracy of the root of the rough distance to the target, before a search and without one."""
ROUGH_MARGIN = 0.005
"""A multiple is checked if its rough log deviation exceeds that of the crossing by at most this."""
MAX_SIZE, MIN_SIZE = 1e15, 1e-30
"""The end of a search without a limit of its own, and the smallest size."""
MAX_STEPS_BACK = 40
MIN_GAIN = 1e-3
"""If a better bound reduces the deviation of the loss by less than this share, the search is not repeated."""
INITIAL_BACK_STEP = 1e-9
"""The first relative step towards privacy; each next one is four times as large."""


def _back_step(shortfall: float) -> int:
    """Returns the step of an eighth of the shortfall: ε falls faster than the local ε, and no step may be too large."""
    return max(0, math.floor(math.log(max(shortfall, INITIAL_BACK_STEP) / (8 * INITIAL_BACK_STEP), 4)))


def _log_ratio(first: float | None, second: float | None) -> float | None:
    """Returns log(first/second), or None if either is unknown."""
    return math.log(first / second) if first and second else None


@dataclass(frozen=True)
class CheckedSetting:
    """A setting whose curve was checked against the target."""

    value: float
    """An int if the setting is a whole number."""
    curve: PrivacyCurve
    target_value: TargetValue
    """The certified number that the target limits."""
    limit: str
    """The reason why no more useful value was tried; empty if the next one misses the target."""


@dataclass(frozen=True)
class _TriedValue:
    """A value that was tried, without a curve if the mechanism refused it."""

    curve: PrivacyCurve | None
    excess: Excess
    position: float


@dataclass(frozen=True)
class _Scale:
    """A setting as a positive position that grows towards less privacy, so that a search can step by factors."""

    parameter: TunableParameter

    def value(self, position: float) -> float:
        """Returns the setting at a position; whole settings are rounded towards privacy."""
        tuning = self.parameter
        if tuning.approaches_one:
            return min(max(1 - 1 / position, tuning.minimum), tuning.maximum)
        size = 1 / position if tuning.more_is_more_private else position
        if not tuning.is_integer:
            return min(max(size, tuning.minimum), tuning.maximum)
        whole = math.ceil(size) if tuning.more_is_more_private else math.floor(size)
        return int(tuning.minimum) + max(whole, 1) - 1

    def position(self, value: float) -> float:
        tuning = self.parameter
        if tuning.approaches_one:
            return 1 / (1 - value)
        size = min(value - tuning.minimum + 1 if tuning.is_integer else value, MAX_SIZE)
        return 1 / max(size, MIN_SIZE) if tuning.more_is_more_private else size

    @property
    def ends(self) -> tuple[float, float]:
        """The positions of most and of least privacy."""
        low, high = sorted([self.position(self.parameter.minimum), self.position(self.parameter.maximum)])
        return low, high

    @property
    def most_useful_value(self) -> float:
        """The setting at the end of least privacy."""
        end = self.parameter.minimum if self.parameter.more_is_more_private else self.parameter.maximum
        return end if math.isfinite(end) else self.value(self.ends[1])


class CalibrationSearch:
    """The search for the value of one setting whose curve just meets a target.

    Every returned value has been checked by its own certified curve. Privacy is taken to be monotone in the setting;
    where it is only nearly so (a default that jumps with the setting), the result is the last value found that meets
    the target: for a setting that is not whole, the value one part in a thousand beyond misses the target, and so do
    the values up to half as large again that ``rough``, a quick estimate of the log deviation of the loss, points at (a
    few values there if it points at none).
    """

    def __init__(
        self,
        curve_at: Callable[[float], PrivacyCurve],
        rough: Callable[[float], float],
        tuning: TunableParameter,
        target: CurveTarget,
        *,
        composed: bool = False,
    ) -> None:
        self.curve_at = curve_at
        self.rough = rough
        self.scale = _Scale(target.limit_range(tuning))
        self.target = target
        self.composed = composed
        sharpness = target.sharpness
        self.relative = sharpness.whole if tuning.is_integer else sharpness.composed if composed else sharpness.real
        self.seen: dict[float, _TriedValue] = {}
        self.refused: dict[float, str] = {}

    @property
    def parameter(self) -> TunableParameter:
        return self.scale.parameter

    def excess(self, position: float) -> float:
        """Returns the distance of the curve at a position from the target."""
        return self._try_position(position).excess.size

    def _try_position(self, position: float) -> _TriedValue:
        """Returns the result at a position, computed once for each value."""
        value = self.scale.value(position)
        if value not in self.seen:
            self.seen[value] = self._try_value(value, position)
        return self.seen[value]

    def _try_value(self, value: float, position: float) -> _TriedValue:
        try:
            curve = self.curve_at(value)
            excess = self.target.excess(curve, composed=self.composed)
        except NotApplicable:
            return _TriedValue(None, Excess(math.inf), position)
        except ValueError as error:
            # A mechanism refuses values without information, at the end of most privacy, or values that are too large
            # for it, beyond some that it accepts.
            self.refused[value] = str(error)
            return _TriedValue(None, Excess(math.inf if self._accepts_more_privacy(position) else -math.inf), position)
        if not curve.guarantee and curve.bound != PRINTED:
            raise ValueError(f"{CALIBRATE}: bound must be a guarantee, got {curve.bound}: {curve.note}")
        return _TriedValue(curve, excess, position)

    def _accepts_more_privacy(self, position: float) -> bool:
        """Returns True if the mechanism accepts a value of more privacy; a count may have no end of most privacy."""
        if any(tried.curve is not None and tried.position < position for tried in self.seen.values()):
            return True
        least = self.scale.ends[0]
        return not self.parameter.is_integer and least < position and self._try_position(least).curve is not None

    def run(self) -> CheckedSetting:
        """Returns the most useful value, or raises NotApplicable or ValueError if there is none."""
        low, high = self.scale.ends
        return self._search_between(low, high, self._start(low, high))

    def _search_between(self, low: float, high: float, start: float) -> CheckedSetting:
        below, above = self._find_crossing(low, high, start)
        if not self.parameter.is_integer:
            below, above = self._search_beyond_jumps(below, above, high)
        limit = ""
        if above == high and self.excess(high) <= 0:
            below, limit = high, f"{self.parameter.name} was not searched beyond {self.scale.value(high):g}."
        return self._prove_value(below, limit)

    def refine(self, known: CheckedSetting) -> CheckedSetting:
        """Returns the most useful value, starting from one that a worse bound has proved to meet the target."""
        low, high = self.scale.position(known.value), self.scale.ends[1]
        if not low < high or not self.excess(low) < 0:
            return known
        curve = self._try_position(low).curve
        gain = None if curve is None else _log_ratio(curve.loss_deviation(), known.curve.loss_deviation())
        if gain is not None and gain > -MIN_GAIN:
            return known
        start = low * NEXT_VALUE_FACTOR
        if gain is not None:
            start = self._find_rough_level(low, high, self.rough(known.value) - gain)
        try:
            return self._search_between(low, high, start)
        except NotApplicable:
            return known

    def _find_rough_level(self, low: float, high: float, level: float) -> float:
        """Returns the position at which the rough log deviation reaches a level."""

        def excess(log_position: float) -> float:
            return self.rough(self.scale.value(math.exp(log_position))) - level

        return math.exp(find_crossing(excess, math.log(low), math.log(high), absolute=SEARCH_GUESS_TOLERANCE).middle)

    def guess(self) -> float:
        """Returns the value at which the rough distance to the target is 0, unproved."""
        low, high = self.scale.ends
        position = self._guess(low, high, absolute=GUESS_TOLERANCE)
        # A search that ends next to the end has found no crossing before it.
        if position >= high * (1 - 4 * GUESS_TOLERANCE):
            return self.scale.most_useful_value
        return self.scale.value(position)

    def _start(self, low: float, high: float) -> float:
        first = self.target.initial_value(self.parameter)
        if first is not None:
            return self.scale.position(first)
        return math.sqrt(low * high) if self._starts_in_middle else self._guess(low, high)

    @cached_property
    def _is_rough_constant(self) -> bool:
        """True if the rough estimate does not depend on the setting."""
        return not self.parameter.is_integer and len(set(self._rough_probes)) == 1

    @property
    def _starts_in_middle(self) -> bool:
        """True if the search starts in the middle, because the rough estimate is constant but finite.

        Where the estimate cannot be computed, the search starts at the end of least noise, which is quick; much noise
        is slow.
        """
        return self._is_rough_constant and math.isfinite(self._rough_probes[0])

    @cached_property
    def _rough_probes(self) -> list[float]:
        """The rough estimate at some positions between the ends, where not every value can be built."""
        low, high = self.scale.ends
        return [self.rough(self.scale.value(low * (high / low) ** share)) for share in PROBE_POSITIONS]

    def _guess(self, low: float, high: float, absolute: float = SEARCH_GUESS_TOLERANCE) -> float:
        """Returns the position at which the rough distance to the target is 0."""

        def excess(log_position: float) -> float:
            return self.target.rough_excess(self.rough(self.scale.value(math.exp(log_position))))

        crossing = find_crossing(excess, math.log(low), math.log(high), absolute=absolute)
        return math.exp(crossing.middle)

    def _find_crossing(self, low: float, high: float, start: float) -> tuple[float, float]:
        if self.parameter.is_integer or not (self.target.uses_log_scale or self._starts_in_middle):
            crossing = find_crossing(self.excess, low, high, guess=start, relative=self.relative)
            return crossing.below, crossing.above
        ends = math.log(low), math.log(high)
        crossing = find_crossing(
            lambda x: self.excess(math.exp(x)), *ends, guess=math.log(start), relative=0.0, absolute=self.relative
        )
        below = low if crossing.below == ends[0] else math.exp(crossing.below)
        return below, high if crossing.above == ends[1] else math.exp(crossing.above)

    def _search_beyond_jumps(self, below: float, above: float, high: float) -> tuple[float, float]:
        """Continues the search from the farthest multiple that meets the target, until none does."""
        while (farthest := self._farthest_multiple(below, high)) is not None:
            below, above = self._find_crossing(farthest, high, farthest * NEXT_VALUE_FACTOR)
        return below, above

    def _farthest_multiple(self, below: float, high: float) -> float | None:
        """Returns the farthest multiple of a position that still meets the target."""
        most = self.rough(self.scale.value(below)) + ROUGH_MARGIN
        for factor in reversed(JUMP_FACTORS[:: SPARSE_STRIDE if self._is_rough_constant else 1]):
            position = below * factor
            promising = factor == NEXT_VALUE_FACTOR or self.rough(self.scale.value(position)) <= most
            if position < high and promising and self.excess(position) <= 0:
                return position
        return None

    def _prove_value(self, position: float, limit: str) -> CheckedSetting:
        """Returns the value at a position, or the first more private one whose certified number meets the target."""
        least, step = self.scale.ends[0], 0
        while step < MAX_STEPS_BACK:
            tried, value = self._try_position(position), self.scale.value(position)
            if value in self.refused:
                break
            if tried.curve is not None and tried.excess.size <= 0:
                reached = tried.excess.target_value or self.target.evaluate(tried.curve)
                if self.target.is_met(reached):
                    return CheckedSetting(value, tried.curve, reached, limit)
                step = max(step, _back_step(self.target.shortfall(reached)))
            if position <= least:
                break
            position = max(least, self._step_back(position, step))
            step += 1
        raise self._no_value_error()

    def _step_back(self, position: float, step: int) -> float:
        if not self.parameter.is_integer:
            return position * (1 - min(0.5, INITIAL_BACK_STEP * 4.0**step))
        value = self.scale.value(position)
        return self.scale.position(value + 1 if self.parameter.more_is_more_private else value - 1)

    def _no_value_error(self) -> ValueError:
        tuning = self.parameter
        if self.refused and len(self.refused) == len(self.seen):
            return ValueError(next(iter(self.refused.values())))
        reason = f"no {tuning.name} from {tuning.minimum:g} to {tuning.maximum:g} is proved to give {self.target}."
        return NotApplicable(CALIBRATE, " ".join([reason, *list(self.refused.values())[-1:]]))


LOCAL_EPSILON_NAME = "epsilon_local"
"""The callers' name of the local ε, because ``epsilon`` is the central target."""
USERS_PARAMETER = TunableParameter("users", is_integer=True, more_is_more_private=True, minimum=1, maximum=1e12)
ROUNDS_PARAMETER = TunableParameter("rounds", is_integer=True, more_is_more_private=False, minimum=1, maximum=1e6)
POPULATION_PARAMETER = TunableParameter("of", is_integer=True, more_is_more_private=True, minimum=1, maximum=1e12)
PARTICIPATION_PARAMETERS = (USERS_PARAMETER, ROUNDS_PARAMETER, POPULATION_PARAMETER)
"""Settings that are not part of the randomizer."""
LOCAL_EPSILON_PARAMETER = Mechanism.tunable[0]
"""The search range of the local ε for a randomizer that declares none."""

UNPROVED_SUFFIX = " as printed: NOT a guarantee"

INITIAL_SIZE_FACTOR, MAX_FACTOR_CORRECTIONS, FACTOR_TOLERANCE = 1.002, 4, 1e-3
"""Initial ratio of ε for random to fixed sample size, the number of its corrections, and their tolerance."""

RandomizerFactory = Callable[[float], Randomizer]
"""Builds a randomizer from the value of the searched setting."""


@dataclass(frozen=True)
class Calibration(PrintableResult):
    """A setting that meets the target, with the randomizer and the certified curve that was checked.

    Args:
        setting: Name of the searched setting.
        value: Its value.
        mechanism: The randomizer with this setting.
        curve: Its privacy curve.
        target_value: The certified number that the target limits.
        target: The target.
        limit: The reason why no more useful value was tried; empty if the next one misses the target.
        users: Number of users who hide each other, colluding ones excluded.
        schedule: The participants of each round, and the number of rounds.
        disclosed_sample_curve: The curve if everybody learns who was drawn; None without sampling.

    >>> import shuffledp as sdp
    >>> found = sdp.calibrate(sdp.KRR(2.0, options=16), find="users", epsilon=0.5, delta=1e-6)
    >>> found.setting, found.value
    ('users', 224)
    >>> f"{found.epsilon.upper:.4f}", found.limit
    ('0.4996', '')
    """

    setting: str
    value: float
    mechanism: Any
    curve: PrivacyCurve
    target_value: TargetValue
    target: CurveTarget
    limit: str
    users: int
    schedule: Participation
    disclosed_sample_curve: PrivacyCurve | None = None

    @property
    def epsilon(self) -> BoundValue:
        """The central ε at the target's δ, at most the target's; AttributeError for a risk target."""
        if not isinstance(self.target_value, BoundValue):
            raise AttributeError("Calibration: a risk target names no δ; take .risk, or .curve.epsilon(delta) at a δ.")
        return self.target_value

    @property
    def risk(self) -> Risk:
        """The attack risk that the target limits; AttributeError for an (ε, δ) target."""
        if not isinstance(self.target_value, Risk):
            raise AttributeError("Calibration: an (ε, δ) target limits ε; take .epsilon, or AttackRisk(.curve).")
        return self.target_value

    def condition_rows(self) -> list[Row]:
        """Returns the rows on the secrecy of the sample and the number reached without it; empty without sampling."""
        if self.disclosed_sample_curve is None:
            return []
        return self.schedule.condition_rows(self.target.format_value(self.target.evaluate(self.disclosed_sample_curve)))

    @property
    def heading(self) -> str:
        return "The most useful setting that meets the target"

    def summary(self) -> list[Row]:
        """Returns the rows of the summary as (name, text)."""
        value = f"{self.value:,}" if isinstance(self.value, int) else repr(self.value)
        limit = [("limit", self.limit)] if self.limit else []
        suffix = "" if self.curve.guarantee else UNPROVED_SUFFIX
        return [
            (self.setting, value),
            ("reached", self.target.format_value(self.target_value) + suffix),
            ("target", str(self.target)),
            ("users", f"{self.users:,}"),
            *self.schedule.rows(),
            *self.condition_rows(),
            ("bound", f"{self.target_value.bound}: {self.target_value.theorem}"),
            ("mechanism", repr(self.mechanism)),
            *limit,
        ]


def calibrate(
    randomizer: Callable[..., Randomizer] | Randomizer,
    *,
    target: CurveTarget | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    users: float | None = None,
    rounds: float | None = None,
    of: float | None = None,
    rate: Any = None,
    find: str | None = None,
    epsilon_local: float | None = None,
    bound: str = pointwise_minimum.BEST_BOUND_NAME,
    colluding: float = 0,
    effort: str = registry.FULL_EFFORT,
    **settings: Any,
) -> Calibration:
    """Returns the most useful value of one setting with which the shuffled output certainly meets a target.

    The value has been checked by its certified curve; 0.1% more (for whole numbers: the next one) misses the target,
    unless ``limit`` of the result says why none was tried. If a default of the mechanism jumps with the setting (subset
    size, hash length), the central ε jumps too, and values beyond the result may meet the target again; they are
    searched up to half as much again.

    Args:
        randomizer: A mechanism's class, a function of the local ε such as ``VariationRatio.from_ldp``, or, to find
            users, rounds or of, a finished mechanism.
        target: ``Target(epsilon, delta)`` or a ``RiskTarget``.
        epsilon: Short for ``Target(epsilon, delta)``, together with ``delta``.
        delta: Short for ``Target(epsilon, delta)``, together with ``epsilon``.
        users: Number of users of a round.
        rounds: Number of rounds.
        of: Size of the population that the users are drawn from, as in ``Participation``.
        rate: Probability with which each person takes part, as in ``Participation``; if the mechanism itself takes a
            ``rate``, it is the mechanism's.
        find: ``"epsilon_local"`` (the largest), ``"users"`` (the fewest; the most, if they are drawn out of ``of``),
            ``"rounds"`` (the most), ``"of"`` (the smallest population) or a setting that the mechanism lists in its
            ``tunable``; by default the first of those.
        epsilon_local: Local ε, if it is not searched.
        bound: Name of the bound, which must be a guarantee. Only ``"protocol-published"``, a protocol's own printed
            analysis, is searched without being one, and the result says so.
        colluding: Number of users who collude with the analyst and hide nobody.
        effort: "quick" or "full", as in ``amplify``.
        **settings: The other arguments of the mechanism's class.

    Returns:
        The setting, its value, the mechanism and its curve.

    Raises:
        TypeError: If ``target`` is not a target.
        ValueError: If arguments are missing, contradict each other or are out of range.
        NotApplicable: If no value is proved to meet the target.

    >>> import shuffledp as sdp
    >>> found = sdp.calibrate(sdp.KRR, options=4, users=100, epsilon=0.5, delta=1e-3)
    >>> found.mechanism.epsilon == found.value and found.epsilon.upper <= 0.5
    True
    >>> sdp.calibrate(sdp.KRR(2.0, 16), find="users", target=sdp.RiskTarget(advantage=0.1)).value
    56
    """
    resolved = _resolve_target(target, epsilon, delta)
    tuning = _choose_parameter(randomizer, find)
    if rate is not None and "rate" in getattr(randomizer, "__dataclass_fields__", {}) and isinstance(randomizer, type):
        if of is not None:
            raise ValueError(f"{CALIBRATE}: rate is a setting of {randomizer.__name__}; give users and of instead.")
        settings, rate = {**settings, "rate": rate}, None
    build = _choose_factory(randomizer, tuning, epsilon_local, settings)
    return search(
        build, tuning, resolved, users=users, rounds=rounds, of=of, rate=rate, bound=bound, colluding=colluding,
        effort=effort,
    )  # fmt: skip


def _resolve_target(target: CurveTarget | None, epsilon: float | None, delta: float | None) -> CurveTarget:
    """Returns the target as given, or the (ε, δ) in short form."""
    if target is None:
        if epsilon is None or delta is None:
            raise ValueError(f"{CALIBRATE}: give a target, or epsilon and delta.")
        with validation.relabel_errors(CALIBRATE, "Target"):
            return Target(epsilon, delta)
    if epsilon is not None or delta is not None:
        raise ValueError(f"{CALIBRATE}: give either a target, or epsilon and delta, not both.")
    if not isinstance(target, CurveTarget):
        raise TypeError(f"{CALIBRATE}: expected Target(epsilon, delta) or a RiskTarget, got {target!r}.")
    return target


def search(
    build: RandomizerFactory,
    tuning: TunableParameter,
    target: CurveTarget,
    *,
    users: float | None,
    rounds: float | None = None,
    of: float | None = None,
    rate: Any = None,
    came: int | None = None,
    failure: float | None = None,
    bound: str = pointwise_minimum.BEST_BOUND_NAME,
    colluding: float = 0,
    effort: str = registry.FULL_EFFORT,
) -> Calibration:
    """Searches one setting of the randomizers that ``build`` makes: ``calibrate`` with the arguments already sorted.

    ``came`` and ``failure`` describe a sample in which some people do not respond, as in ``Participation``.
    """
    registry.check_effort(CALIBRATE, effort)
    arguments = {"users": users, "rounds": rounds, "of": of, "rate": rate, "came": came, "failure": failure}
    request = _CalibrationRequest(build, tuning, arguments, bound, colluding, effort)
    random_size = (rate is not None or came is not None) and isinstance(target, Target)
    result = request.find_by_fixed_size(target) if random_size else request.find(target, arguments)
    deployment = request.prepare(target, arguments, effort)[0]
    schedule = deployment.participation_at(result.value)
    value = schedule.expected_users if tuning is USERS_PARAMETER else result.value
    setting = LOCAL_EPSILON_NAME if tuning.name == "epsilon" else tuning.name
    mechanism, honest = build(result.value), schedule.participants - deployment.colluding
    disclosed = deployment.disclosed_sample_curve(mechanism, schedule, effort) if schedule.is_sampled else None
    return Calibration(
        setting, value, mechanism, result.curve, result.target_value, target, result.limit, honest, schedule, disclosed
    )


@dataclass(frozen=True)
class _CalibrationRequest:
    """The searched setting, the fixed arguments and the effort."""

    build: RandomizerFactory
    parameter: TunableParameter
    fixed_arguments: Mapping[str, Any]
    bound: str
    colluding: float
    effort: str

    def prepare(
        self, target: CurveTarget, arguments: Mapping[str, Any], effort: str
    ) -> tuple[_Deployment, CalibrationSearch]:
        return _prepare_search(self.build, self.parameter, target, arguments, self.bound, self.colluding, effort)

    def find(self, target: CurveTarget, arguments: Mapping[str, Any]) -> CheckedSetting:
        """Returns the value, first by bounds that take milliseconds; slower ones are used only near its result."""
        _, quick = self.prepare(target, arguments, registry.QUICK_EFFORT)
        if self.bound != pointwise_minimum.BEST_BOUND_NAME or self.effort == registry.QUICK_EFFORT:
            return quick.run()
        _, full = self.prepare(target, arguments, registry.FULL_EFFORT)
        try:
            known = quick.run()
        except NotApplicable:
            return full.run()
        return full.refine(known)

    def find_by_fixed_size(self, target: CurveTarget) -> CheckedSetting:
        """Returns the value for a random sample size, searched with fixed sizes and proved for the random one.

        The curve of the random size takes many times as long and is larger by a nearly constant factor.
        """
        assert isinstance(target, Target)
        deployment, _ = self.prepare(target, self.fixed_arguments, self.effort)
        with_fixed_size = {**self.fixed_arguments, "fixed_size": True}
        factor, result = INITIAL_SIZE_FACTOR, None
        for _ in range(MAX_FACTOR_CORRECTIONS):
            near = self.find(Target(target.epsilon / factor, target.delta), with_fixed_size)
            curve = deployment.curve(near.value)
            reached = target.evaluate(curve)
            if target.is_met(reached):
                result = CheckedSetting(near.value, curve, reached, near.limit)
                if near.limit or reached.upper > target.epsilon * (1 - FACTOR_TOLERANCE):
                    break
            assert isinstance(near.target_value, BoundValue)
            factor = max(1.0, reached.upper / near.target_value.upper) * (1 + FACTOR_TOLERANCE / 4)
        if result is None:
            raise NotApplicable(CALIBRATE, f"no {self.parameter.name} is proved to give {target}.")
        return result


def guess(
    build: RandomizerFactory,
    tuning: TunableParameter,
    target: CurveTarget,
    *,
    users: float,
    rounds: float | None = None,
    share: float = 1.0,
) -> float:
    """Returns the value at which a normal approximation meets the target, as a quick and unproved estimate.

    ``share`` is the probability that a person takes part in a round.
    """
    arguments = {"users": users, "rounds": rounds, "of": math.ceil(users / share), "rate": None}
    return _prepare_search(
        build, tuning, target, arguments, pointwise_minimum.BEST_BOUND_NAME, 0, registry.QUICK_EFFORT
    )[1].guess()


def _prepare_search(
    build: RandomizerFactory,
    tuning: TunableParameter,
    target: CurveTarget,
    arguments: Mapping[str, Any],
    bound: str,
    colluding: float,
    effort: str,
) -> tuple[_Deployment, CalibrationSearch]:
    """Returns the deployment and the search of its setting; raises ValueError if arguments contradict each other."""
    colluding_count = validation.count(CALIBRATE, "colluding", colluding, at_least=0)
    searched_name = tuning.name if tuning in PARTICIPATION_PARAMETERS else None
    if searched_name is not None and arguments.get(searched_name) is not None:
        value = arguments[searched_name]
        raise ValueError(
            f"{CALIBRATE}: {searched_name} is the searched setting; leave it out, got {searched_name} = {value!r}."
        )
    if arguments["rate"] is not None:
        if tuning is USERS_PARAMETER:
            raise ValueError(f"{CALIBRATE}: the number of users follows from of and rate; find of instead.")
    elif tuning is not USERS_PARAMETER:
        if arguments["users"] is None:
            raise ValueError(f"{CALIBRATE}: users must be given, unless it is the searched setting.")
        validation.count(CALIBRATE, "users", arguments["users"], at_least=colluding_count + 1)
    known = {name: value for name, value in arguments.items() if value is not None}
    deployment = _Deployment(build, tuning, known, colluding_count, bound, effort)
    searched = deployment.search_range()
    composed = tuning is ROUNDS_PARAMETER or deployment.participation_at(searched.minimum).rounds > 1
    return deployment, CalibrationSearch(
        deployment.curve, deployment.log_deviation, searched, target, composed=composed
    )


@dataclass(frozen=True)
class _Deployment:
    """A collection as a function of the one setting that is searched."""

    build: RandomizerFactory
    parameter: TunableParameter
    fixed_arguments: Mapping[str, Any]
    colluding: int
    bound: str
    effort: str

    def search_range(self) -> TunableParameter:
        """Returns the search range; for samples out of a population, smaller ones are more private."""
        of, users, rate = (self.fixed_arguments.get(name) for name in ("of", "users", "rate"))
        if self.parameter is USERS_PARAMETER and of is not None:
            most = validation.count(CALIBRATE, "of", of, at_least=self.colluding + 1) - self.colluding
            return dataclasses.replace(USERS_PARAMETER, more_is_more_private=False, maximum=most)
        if self.parameter is POPULATION_PARAMETER:
            if rate is not None:
                least = math.ceil(1 / parse_rate(CALIBRATE, rate))
            else:
                least = validation.count(CALIBRATE, "users", users)
            return dataclasses.replace(POPULATION_PARAMETER, minimum=max(least, self.colluding + 1))
        return self.parameter

    def participation_at(self, value: float) -> Participation:
        """Returns the participation; if users are searched, those who do not collude are counted."""
        if self.parameter is USERS_PARAMETER:
            return self._participation({"users": int(value) + self.colluding})
        if self.parameter in PARTICIPATION_PARAMETERS:
            return self._participation({self.parameter.name: int(value)})
        return self._fixed_participation

    @cached_property
    def _fixed_participation(self) -> Participation:
        """The participation, if a setting of the randomizer is searched."""
        return self._participation({})

    def _participation(self, searched: Mapping[str, int]) -> Participation:
        arguments = {**self.fixed_arguments, **searched}
        has_fixed_size = arguments.pop("fixed_size", False)
        with validation.relabel_errors(CALIBRATE, "Participation"):
            schedule = Participation(**arguments)
        if not has_fixed_size:
            return schedule
        alike = schedule.scaled_to(schedule.participants)
        return Participation(schedule.participants, alike.of, rounds=schedule.rounds)

    def curve(self, value: float) -> PrivacyCurve:
        """Returns the privacy curve of all rounds together."""
        schedule = self.participation_at(value)
        once = self._single_round_curve if self.parameter is ROUNDS_PARAMETER else self._round_curve(value)
        return once if schedule.rounds == 1 else compose(once, schedule.rounds)

    @cached_property
    def _single_round_curve(self) -> PrivacyCurve:
        """The curve of one round, if the number of rounds is searched."""
        return self._round_curve(1)

    def _round_curve(self, value: float) -> PrivacyCurve:
        with validation.relabel_errors(CALIBRATE, "amplify", "subsample", "poisson"):
            randomizer, schedule = self.build(value), self.participation_at(value).single_round()
            return schedule.curve(randomizer, bound=self.bound, colluding=self.colluding, effort=self.effort)

    def disclosed_sample_curve(self, randomizer: Randomizer, schedule: Participation, effort: str) -> PrivacyCurve:
        """Returns the curve if everybody learns who was drawn."""
        return schedule.disclosed_sample_curve(randomizer, bound=self.bound, colluding=self.colluding, effort=effort)

    def log_deviation(self, value: float) -> float:
        """Returns the log standard deviation of the loss by a normal approximation, to guide the search; −∞ if unknown.

        The sum in (★) has variance n·2βq(p−1)/p, over n; the squares of rounds add up, and a share of the population
        has that share of the loss.
        """
        schedule = self.participation_at(value)
        honest = schedule.participants - self.colluding
        log_share = 0.5 * math.log(schedule.rounds) + math.log(schedule.share)
        try:
            randomizer = self.build(value)
            noise_deviation = aggregate_noise_deviation(randomizer, honest)
            if noise_deviation is not None:
                return math.log(noise_deviation) + log_share
            parameters = randomizer.variation_ratio()
        except (TypeError, ValueError):
            # At the ends of a search some randomizers, or their parts, cannot be built.
            return -math.inf
        if parameters.beta == 0:
            return -math.inf
        p_share = 1.0 if math.isinf(parameters.p) else (parameters.p - 1) / parameters.p
        hidden: float = randomizer.hiding_messages(honest)
        if isinstance(randomizer, HasNoisyMessages):
            others, chance = randomizer.count_noisy_messages(int(hidden))
            hidden += others * float(chance)
        return 0.5 * math.log(2 * parameters.beta * max(parameters.q_pair) * p_share / hidden) + log_share


def aggregate_noise_deviation(randomizer: Randomizer, users: int) -> float | None:
    """Returns about the standard deviation of the loss if a protocol, or all of its parts, knows it; else None."""
    if isinstance(randomizer, HasAggregateLoss):
        return randomizer.aggregate_loss(randomizer.hiding_messages(users)).deviation()
    if not isinstance(randomizer, HasParts):
        return None
    deviations = [(aggregate_noise_deviation(part, users), times) for part, times in randomizer.parts()]
    squares = [times * one**2 for one, times in deviations if one is not None]
    return math.sqrt(sum(squares)) if len(squares) == len(deviations) else None


def _choose_parameter(randomizer: Any, find: str | None) -> TunableParameter:
    """Returns the searched setting."""
    if callable(randomizer):
        return find_parameter(_tunable_parameters(randomizer), find)
    if find is None or find not in [tuning.name for tuning in PARTICIPATION_PARAMETERS]:
        raise ValueError(
            f"{CALIBRATE}: a finished mechanism leaves only users, rounds or of to find, got find = {find!r}."
        )
    return find_parameter((), find)


def _tunable_parameters(randomizer: Any) -> Sequence[TunableParameter]:
    """Returns the settings that a mechanism's class lists; for a plain function, the local ε."""
    known: Sequence[TunableParameter] = getattr(randomizer, "tunable", (LOCAL_EPSILON_PARAMETER,))
    return known


def find_parameter(known: Sequence[TunableParameter], find: str | None) -> TunableParameter:
    """Returns the setting of this name, of the mechanism or of the schedule; by default the mechanism's first."""
    names = {
        LOCAL_EPSILON_NAME if tuning.name == "epsilon" else tuning.name: tuning
        for tuning in (*known, *PARTICIPATION_PARAMETERS)
    }
    if find is None:
        return next(iter(names.values()))
    if find not in names:
        raise ValueError(f"{CALIBRATE}: find must be one of {', '.join(names)}, got {find!r}.")
    return names[find]


def _choose_factory(
    randomizer: Any, tuning: TunableParameter, epsilon_local: float | None, settings: dict[str, Any]
) -> RandomizerFactory:
    """Returns the randomizer as a function of the searched setting."""
    if not callable(randomizer):
        if settings or epsilon_local is not None:
            raise ValueError(f"{CALIBRATE}: a finished mechanism takes no further settings, got {randomizer!r}.")
        return lambda value: randomizer
    if tuning.name in settings:
        raise ValueError(f"{CALIBRATE}: {tuning.name} is the searched setting; leave it out of the settings.")
    if tuning.name == "epsilon":
        if epsilon_local is not None:
            raise ValueError(
                f"{CALIBRATE}: epsilon_local is the searched setting; leave it out, got {epsilon_local!r}."
            )
        return lambda value: randomizer(value, **settings)
    if epsilon_local is None and "epsilon" in [known.name for known in _tunable_parameters(randomizer)]:
        raise ValueError(f"{CALIBRATE}: epsilon_local must be given, unless it is the searched setting.")
    local = () if epsilon_local is None else (epsilon_local,)
    if tuning in PARTICIPATION_PARAMETERS:
        mechanism = randomizer(*local, **settings)
        return lambda value: mechanism
    return lambda value: randomizer(*local, **settings, **{tuning.name: value})
