"""``certify``: a privacy statement about a randomizer as a claim that others can prove again.

Claims of several rounds or of samples rest on points (ε, δ), chosen by the engine's curve and proved one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from flint import arb
from shuffledp_verify import Finding, Verdict
from shuffledp_verify.arithmetic import rational
from shuffledp_verify.claim import MAX_EPSILON
from shuffledp_verify.decision import RoundProof
from shuffledp_verify.rounds import Draw, GridTooLong, RoundsComposition, SampleSizes, SizePoints

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import INFINITE_EPSILON_TEXT
from shuffledp.bounds import registry
from shuffledp.bounds.amplify import ChosenInputsCurve, amplify
from shuffledp.bounds.blanket import has_tails
from shuffledp.bounds.participation import ERROR_PREFIX as SCHEDULE, Participation, format_rate
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.certificates.claim import (
    Claim,
    build_claim,
    raise_pair,
    require_evidence_class,
    software_versions,
    verify,
)
from shuffledp.certificates.evidence import (
    ChosenInputs,
    MechanismRoundEvidence,
    MechanismRoundsEvidence,
    count_hiding_messages,
    provable_bounds,
)
from shuffledp.privacy.curve import MAX_EPSILON as LAST, BoundValue, PrivacyCurve
from shuffledp.privacy.privacy_loss import round_step
from shuffledp.privacy.randomizer import Randomizer

if TYPE_CHECKING:
    from shuffledp.certificates.claim import Claim


# --- Claims of rounds and samples ---


DELTA_MARGINS = 1e-4, 1e-3, 1e-2, 1e-1
"""Relative amounts by which δ of a point is raised; the first one with which it is proved is used."""
SMALLEST_MARGIN_USERS = 10_000
"""For many points of fewer users the first margin, which takes long there, is not tried."""
INITIAL_GRID_STEP, MAX_HALVINGS, GRID_ACCURACY = 0.13, 4, 4e-4
"""Grid step in deviations of one round's loss, and relative gain of ε at which it is fine enough."""
MAX_STEPS = 20_000
INFINITE_LOSS_DELTA_SHARE = 1e-3
"""Share of δ that the loss beyond the last point may cost."""
MAX_POINT_DISTANCE, POINT_DISTANCE_GROWTH = 0.5, 1.15
"""Largest distance of points in deviations, and factor by which they widen beyond the middle."""
SIZE_POSITIONS = ((-4.5, 4), (-2.0, 1))
"""Sizes of a random sample, in deviations from the mean, and the factors by which their points are wider apart."""
DENSE_SIZE_POSITIONS = ((-4.5, 4), (-2.0, 2), (-0.5, 1))
"""The same if the deviation is more than the share FEW of the mean."""
MAX_SPARSE_DEVIATION = 0.005
POINTS_PER_SIZE, MIN_POINTS_PER_SIZE, COVERED_DEVIATIONS = 12, 5, 4.0
"""Points for one round of random size, and number of deviations of the size that they cover."""
SIZE_DISTANCE = 3.0
"""Distance, in deviations, of sizes below all of these."""
OMITTED_DELTA_SHARE = 1e-4
"""Share of δ that sizes below all of these, or losses beyond all points, may cost."""
CLAIM_MARGIN = Decimal("1e-7")
EPSILON_TOLERANCE = 1e-8
MIN_SURVEYED_DELTA, SURVEY_RATIO, MIN_TARGET_DELTA = 1e-12, 1.6, 1e-280


@dataclass(frozen=True)
class ClaimRequest:
    """The statement to claim: rounds of a schedule, by one bound; ε at δ, or δ at ε."""

    randomizer: Randomizer
    bound: str
    users: int
    """Number of honest users of a round; the mean if it is random."""
    rounds: int
    draw: Draw | None
    epsilon: float | None
    delta: float | None

    @classmethod
    def from_participation(
        cls, randomizer: Randomizer, bound: str, schedule: Participation, users: int, colluding: int,
        epsilon: float | None, delta: float | None,
    ) -> ClaimRequest:  # fmt: skip
        """Makes the question of a schedule; ``users`` is the number of honest users of a round if it is fixed."""
        if not schedule.is_sampled:
            return cls(randomizer, bound, users, schedule.rounds, None, epsilon, delta)
        assert schedule.of is not None, "a sample is drawn out of somebody"
        if schedule.rate is None:
            draw = Draw(schedule.of, colluding, sample_size=schedule.expected_users)
        else:
            draw = Draw(schedule.of, colluding, rate=format_rate(schedule.rate))
            users = max(1, math.floor(draw.chance * draw.honest_population))
        return cls(randomizer, bound, users, schedule.rounds, draw, epsilon, delta)

    @property
    def share(self) -> float:
        """The probability that a person is drawn."""
        return 1.0 if self.draw is None else float(self.draw.chance)

    def curve(self, users: int) -> PrivacyCurve:
        """Returns the engine's curve of one round of this many users; raises NotApplicable if there is none."""
        return BOUNDS_BY_NAME[self.bound].curve(self.randomizer, count_hiding_messages(self.randomizer, users))

    def single_round_value(self) -> float:
        """Returns the bound's number for one round, to compare bounds; raises ValueError if it has no second proof."""
        curve = self.curve(self.users)
        value = curve.delta(_inner_epsilon(self.epsilon or 0.0, self.share))
        kind = require_evidence_class(self.randomizer, value)
        assert kind.for_all_inputs, "chosen inputs are not asked about"
        if self.delta is None:
            return value.upper
        return curve.epsilon(min(0.5, self.delta / self.rounds / self.share)).upper

    def build_claim(self) -> Claim:
        """Returns the claim with its proved points, or raises ValueError if there is none."""
        maker = _PointProver(self)
        sizes, step = maker.prove_points()
        plan = RoundsComposition(self.rounds, self.draw, step)
        reach = max(epsilon for size in sizes for epsilon, _ in size.points)
        once = maker.kind.from_randomizer(self.randomizer, self.users, self.bound, reach)
        claimed = _compute_claimed_pair(plan, sizes, self.epsilon, self.delta)
        others = {
            size.users: once.with_users(self.randomizer, size.users) for size in sizes if size.users != self.users
        }
        of_sizes = {
            users: one for users, one in others.items() if set(one.user_dependent_fields) & set(one.to_document())
        }
        backing = MechanismRoundsEvidence(plan, tuple(sizes), once, of_sizes)
        return Claim(maker.words, self.users, *claimed, self.bound, maker.theorem, software_versions(), backing)


class _PointProver:
    """The points of one question."""

    def __init__(self, question: ClaimRequest) -> None:
        self.question = question
        self.curve = question.curve(question.users)
        value = self.curve.delta(0.0)
        self.kind: type[MechanismRoundEvidence] = require_evidence_class(question.randomizer, value)
        self.theorem = value.theorem
        self.words = self.kind.describe_randomizer(question.randomizer)
        self.known: dict[tuple[int, float], float] = {}
        self.curves = {question.users: self.curve}

    @cached_property
    def laws(self) -> RoundProof:
        """The laws that the second proof will rebuild."""
        asked, any_epsilon = self.question, 0.0
        evidence = self.kind.from_randomizer(asked.randomizer, asked.users, asked.bound, any_epsilon)
        claim = Claim(
            self.words, asked.users, any_epsilon, 1.0, asked.bound, self.theorem, software_versions(), evidence
        )
        return evidence.rebuild_proof(claim)

    def is_proved(self, users: int, epsilon: float, delta: float) -> bool:
        finding = self.laws.decide(users, Fraction(epsilon), Fraction(delta), lambda text: None)
        return finding.verdict is Verdict.YES

    def prove_points(self) -> tuple[list[SizePoints], float]:
        """Returns the proved points for each size, and the step of the grid."""
        asked = self.question
        if asked.rounds > 1:
            return self._prove_composed_points()
        return (
            self._prove_single_point()
            if asked.draw is None or asked.draw.sample_size is not None
            else self._prove_poisson_points()
        )

    # --- One round ---

    def _prove_single_point(self) -> tuple[list[SizePoints], float]:
        """Returns the claimed point itself, without sampling."""
        asked = self.question
        for margin in DELTA_MARGINS:
            if asked.delta is None:
                epsilon = _inner_epsilon(asked.epsilon or 0.0, asked.share) * (1 - 1e-15)
                delta = min(1.0, self.curve.delta(epsilon).upper * (1 + margin))
            else:
                delta = min(1.0, math.nextafter(asked.delta / asked.share, 0.0))
                epsilon = self.curve.epsilon(delta / (1 + margin)).upper
            if math.isinf(epsilon):
                break
            if self.is_proved(asked.users, epsilon, delta):
                return [SizePoints(asked.users, ((epsilon, delta),))], 1.0
        raise _no_proof_error(asked.bound)

    def _prove_poisson_points(self) -> tuple[list[SizePoints], float]:
        """Returns, for each size, a few points around the claimed one, for the range of sizes that it stands for."""
        asked = self.question
        assert asked.draw is not None, "asked for only where coins decide"
        low = high = asked.epsilon
        if asked.delta is not None:
            inner = self.curve.epsilon(min(0.5, asked.delta / asked.share)).upper
            if math.isinf(inner):
                raise ValueError(
                    f"certificate: epsilon is {INFINITE_EPSILON_TEXT} at this delta; claim a larger delta."
                )
            about = math.log1p(asked.share * math.expm1(inner))
            low, high = about * (1 - 1 / math.sqrt(asked.users) / 4), about * (1 + 2 / math.sqrt(asked.users))
        coins = SampleSizes(asked.draw.honest_population, asked.draw.chance)
        usual = math.ceil(coins.mean + COVERED_DEVIATIONS * coins.deviation)
        most = max(usual, coins.upper_quantile(OMITTED_DELTA_SHARE * self._target))

        def seen(fewer: int, more: int, count: int) -> list[float]:
            """Returns ε without sampling for samples of these sizes."""
            shares = (min(1.0, drawn / coins.people) for drawn in (more, fewer))
            first, last = (
                _inner_epsilon(epsilon or 0.0, share) for epsilon, share in zip((low, high), shares, strict=True)
            )
            found: list[float] = np.linspace(first, last, count).tolist()
            return found

        sizes = []
        for (users, stride), (after, _) in pairwise([*self._sizes, (usual, 1)]):
            places = seen(users, max(after, users), max(MIN_POINTS_PER_SIZE, POINTS_PER_SIZE // stride))
            if after == usual:
                places += seen(usual, most, MIN_POINTS_PER_SIZE)
            places = sorted(set(places))
            points = zip(places, self._engine_deltas(users, places), strict=True)
            sizes.append(
                self._prove_size(SizePoints(users, tuple((place, delta) for place, delta in points if delta < 1)))
            )
        return sizes, 1.0

    # --- Many rounds ---

    def _prove_composed_points(self) -> tuple[list[SizePoints], float]:
        """Returns proved points, so dense that more would hardly improve the result."""
        step = round_step(INITIAL_GRID_STEP * self._deviation)
        found, step = self._estimate(step)
        for _ in range(MAX_HALVINGS):
            finer, half = self._estimate(step / 2)
            gained = 1 - finer / found if 0 < found < math.inf else 0.0
            if half == step or gained <= 0:
                break
            found, step = finer, half
            # Chords cost the square of the step, so the next half would gain a quarter of this one.
            if gained <= 3 * self._accuracy:
                break
        if math.isinf(found):
            raise ValueError(f"certificate: epsilon is {INFINITE_EPSILON_TEXT} at this delta; claim a larger delta.")
        return [self._prove_size(self._compute_points(users, stride, step)) for users, stride in self._sizes], step

    @property
    def _accuracy(self) -> float:
        """Relative accuracy of ε; that of δ is larger by about its logarithm."""
        return GRID_ACCURACY if self.question.epsilon is None else GRID_ACCURACY * max(1.0, -2 * math.log(self._target))

    def _estimate(self, step: float) -> tuple[float, float]:
        """Returns the result of the engine's points for the usual size, as if it were fixed, and the step."""
        asked, (users, stride) = self.question, self._sizes[-1]
        last = max(self._grid_positions(users, step, stride))
        if last > MAX_STEPS:
            step *= 2.0 ** math.ceil(math.log2(last / MAX_STEPS))
        draw = (
            None if asked.draw is None else Draw(asked.draw.population, asked.draw.colluding, sample_size=asked.users)
        )
        sizes = [self._compute_points(users, stride, step)]
        try:
            epsilon, delta = _compute_claimed_pair(
                RoundsComposition(asked.rounds, draw, step), sizes, asked.epsilon, asked.delta
            )
        except ValueError:
            return math.inf, step
        return (epsilon if asked.epsilon is None else delta), step

    def _compute_points(self, users: int, stride: int, step: float) -> SizePoints:
        """Returns the engine's points for this many users."""
        inner = [
            _inner_epsilon(place * step, self.question.share) for place in self._grid_positions(users, step, stride)
        ]
        points = zip(inner, self._engine_deltas(users, inner), strict=True)
        return SizePoints(users, tuple((epsilon, delta) for epsilon, delta in points if delta < 1))

    def _prove_size(self, size: SizePoints) -> SizePoints:
        """Returns each point with the least margin with which it is proved; unproved points are left out."""
        found = []
        for epsilon, delta in size.points:
            for margin in DELTA_MARGINS if size.users >= SMALLEST_MARGIN_USERS else DELTA_MARGINS[1:]:
                raised = min(1.0, max(delta * (1 + margin), MIN_TARGET_DELTA))
                if self.is_proved(size.users, epsilon, raised):
                    found.append((epsilon, raised))
                    break
        if not found:
            raise _no_proof_error(self.question.bound)
        return SizePoints(size.users, tuple(found))

    @cached_property
    def _sizes(self) -> list[tuple[int, int]]:
        """Numbers of users, and the factors by which their points are wider apart."""
        draw, asked = self.question.draw, self.question
        if draw is None or draw.sample_size is not None:
            return [(asked.users, 1)]
        coins = SampleSizes(draw.honest_population, draw.chance)
        starts = SIZE_POSITIONS if coins.deviation <= MAX_SPARSE_DEVIATION * coins.mean else DENSE_SIZE_POSITIONS
        least, deviations = 1, -starts[0][0]
        left = OMITTED_DELTA_SHARE * self._target / asked.rounds
        while (size := math.floor(coins.mean - deviations * coins.deviation)) > 1:
            if coins.tail_below(size) <= left:
                least = size
                break
            deviations += 0.5
        apart, stride = max(1, math.floor(SIZE_DISTANCE * coins.deviation)), starts[0][1]
        cuts = [(math.floor(coins.mean + place * coins.deviation), stride) for place, stride in starts]
        lower = [(cut, stride) for cut in range(least, max(least + 1, cuts[0][0]), apart)]
        return [*lower, *((cut, stride) for cut, stride in cuts if lower[-1][0] < cut <= draw.honest_population)]

    def _grid_positions(self, users: int, step: float, stride: int) -> Iterator[int]:
        """Yields grid points, dense where the loss of all rounds comes from, until the curve is near 0."""
        asked, deviation = self.question, self._deviation
        middle = math.sqrt(-2 * math.log(self._target) / asked.rounds) * deviation
        enough = INFINITE_LOSS_DELTA_SHARE * self._target / asked.rounds / asked.share
        (floor,) = self._engine_deltas(users, [LAST])
        place, width = 0, 1
        while True:
            yield place
            (value,) = self._engine_deltas(users, [_inner_epsilon(place * step, asked.share)])
            if value <= max(enough, floor * 1.0001) or _inner_epsilon(place * step, asked.share) >= LAST:
                return
            away = (place * step - middle) / deviation
            wider = int(math.exp(min(50.0, away * away / 6)))
            cap = (
                max(1, int(MAX_POINT_DISTANCE * deviation / step))
                if away < 6
                else math.ceil(width * POINT_DISTANCE_GROWTH)
            )
            width = max(1, min(wider, cap))
            place += width * stride

    def _engine_deltas(self, users: int, epsilons: Sequence[float]) -> list[float]:
        """Returns the engine's δ without sampling at each ε, computed once."""
        missing = [epsilon for epsilon in epsilons if (users, epsilon) not in self.known]
        if missing:
            if users not in self.curves:
                self.curves[users] = self.question.curve(users)
            found = self.curves[users].profile(np.minimum(missing, LAST)).upper.tolist()
            self.known |= {(users, epsilon): value for epsilon, value in zip(missing, found, strict=True)}
        return [self.known[users, epsilon] for epsilon in epsilons]

    @cached_property
    def _deviation(self) -> float:
        """Approximate deviation of one round's loss: its variance is 4∫δ dε if losses are small."""
        asked = self.question
        (first,) = self._engine_deltas(asked.users, [0.0])
        scale = max(first * asked.share, MIN_SURVEYED_DELTA) * math.sqrt(2 * math.pi)
        epsilons, values = [0.0], [first * asked.share]
        while values[-1] > MIN_SURVEYED_DELTA and epsilons[-1] < LAST:
            epsilons.append(0.05 * scale * SURVEY_RATIO ** len(epsilons))
            (value,) = self._engine_deltas(asked.users, [_inner_epsilon(epsilons[-1], asked.share)])
            values.append(value * asked.share)
        means = np.sqrt(np.array(values[1:]) * np.array(values[:-1]))
        return math.sqrt(max(4 * float(np.sum(np.diff(epsilons) * means)), 1e-30))

    @cached_property
    def _target(self) -> float:
        """δ, or an estimate of it."""
        asked = self.question
        if asked.delta is not None:
            return max(asked.delta, MIN_TARGET_DELTA)
        deviation = self._deviation * math.sqrt(asked.rounds)
        away = (asked.epsilon or 0.0) / deviation
        return min(0.5, max(MIN_TARGET_DELTA, 0.4 * deviation * math.exp(-away * away / 2) / (1 + away * away)))


def _inner_epsilon(epsilon: float, share: float) -> float:
    """Returns log(1 + (e^ε − 1)/share), capped at the largest ε that is evaluated."""
    if share == 1.0:
        return min(epsilon, LAST)
    return min(LAST, math.log1p(math.expm1(epsilon) / share)) if epsilon < LAST else LAST


def _compute_claimed_pair(
    plan: RoundsComposition, sizes: Sequence[SizePoints], epsilon: float | None, delta: float | None
) -> tuple[float, float]:
    """Returns (ε, δ), the wanted one as the second proof gives it, rounded up."""
    try:
        if delta is None:
            assert epsilon is not None, "one of the two is given"
            return _compute_claimed_delta(plan, sizes, epsilon)
        bound, exact = plan.bound(sizes, Fraction(delta)), arb(rational(Fraction(delta)))
        return _compute_claimed_epsilon(lambda x: bound.delta(Fraction(x)) <= exact, delta)
    except GridTooLong as error:
        raise ValueError(f"certificate: no second proof was found: {error}") from None


def _compute_claimed_delta(plan: RoundsComposition, sizes: Sequence[SizePoints], epsilon: float) -> tuple[float, float]:
    if epsilon > MAX_EPSILON:
        raise ValueError(f"certificate: expected an epsilon of at most {MAX_EPSILON}, got {epsilon}.")
    exact, found = Fraction(epsilon), 1.0
    # The outermost losses are cut depending on δ: repeat with the δ found.
    while True:
        again = float(plan.bound(sizes, Fraction(max(found, MIN_TARGET_DELTA))).delta(exact).upper())
        if again >= 0.9 * found or again <= MIN_TARGET_DELTA:
            break
        found = again
    return raise_pair(max(again, MIN_TARGET_DELTA), epsilon, None, CLAIM_MARGIN)


def _compute_claimed_epsilon(is_kept: Callable[[float], bool], delta: float) -> tuple[float, float]:
    low, high = 0.0, 1e-6
    while not is_kept(high):
        low, high = high, 4 * high
        if high > LAST:
            raise ValueError(f"certificate: epsilon is {INFINITE_EPSILON_TEXT} at this delta; claim a larger delta.")
    while high - low > EPSILON_TOLERANCE * high and high > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if is_kept(middle) else (middle, high)
    return raise_pair(high, None, delta, CLAIM_MARGIN)


def _no_proof_error(bound: str) -> ValueError:
    return ValueError(f"certificate: no second proof of {bound} was found for the rounds; take another bound.")


def certify(
    randomizer: Randomizer,
    users: float | None = None,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    bound: str = registry.BEST_BOUND_NAME,
    colluding: float = 0,
    of: float | None = None,
    rate: float | str | None = None,
    rounds: float = 1,
    pair: Sequence[Any] | None = None,
    diameter: float | None = None,
    effort: str = registry.FULL_EFFORT,
) -> Claim:
    """Returns the claim that the shuffled messages of users who all run ``randomizer`` are (ε, δ)-private.

    The claim starts from the randomizer rather than from a value of a curve, because a value does not know its
    randomizer and must not be paired with another one.

    Args:
        randomizer: A mechanism or ``VariationRatio`` parameters.
        users: Number of all users of a round.
        delta: The δ at which the smallest proved ε is claimed.
        epsilon: The ε at which the smallest proved δ is claimed; give one of ``delta`` and ``epsilon``.
        bound: Name of a numeric bound; by default the best one that ``verify`` can prove.
        colluding: Number of users who hide nobody; in a sample, of all who may be drawn.
        of: Size of the population that the users are drawn from, as in ``Participation``; the claim then says that
            nobody may learn who was drawn.
        rate: Probability with which each person takes part, as in ``Participation``.
        rounds: Number of rounds.
        pair: Two inputs of a metric mechanism that the claim is about, as for ``amplify``.
        diameter: Largest distance of inputs of a metric mechanism that the claim is about, as for ``amplify``.
        effort: "full" also tries bounds that take longer, "quick" does not.

    Returns:
        The claim, which ``save`` writes to a file.

    Raises:
        ValueError: If arguments contradict each other or are out of range, or if no second proof is found.
        NotApplicable: If no certified bound applies.

    >>> import shuffledp as sdp
    >>> from shuffledp.certificates.certify import certify
    >>> from shuffledp.certificates.claim import verify
    >>> claim = certify(sdp.KRR(2.0, options=16), 5000, delta=1e-6)
    >>> claim.epsilon
    0.09780284
    >>> verify(claim).verdict.value
    'yes'
    >>> weekly = certify(sdp.KRR(2.0, options=16), 5000, of=100_000, rounds=52, delta=1e-6, effort="quick")
    >>> weekly.epsilon, verify(weekly).verdict.value
    (0.03314912, 'yes')
    """
    if (delta is None) == (epsilon is None):
        raise ValueError("certify: give either delta (to claim ε) or epsilon (to claim δ).")
    delta = None if delta is None else validation.open_probability("certify", "delta", delta)
    epsilon = None if epsilon is None else validation.non_negative("certify", "epsilon", epsilon)
    lost = validation.count("certify", "colluding", colluding, at_least=0)
    with validation.relabel_errors("certify", SCHEDULE):
        # Schedule accepts numbers of every type.
        given: Any = {"users": users, "of": of, "rate": rate, "rounds": rounds}
        schedule = Participation(**given)
    honest = schedule.expected_users - lost
    _check_no_tails(randomizer)
    if schedule.rounds > 1 or schedule.is_sampled:
        if pair is not None or diameter is not None:
            raise ValueError("certify: pair and diameter are for one round of all users.")
        if honest < 1:
            raise ValueError(
                f"certify: colluding must be below the {schedule.expected_users} users of a round, got {lost}."
            )
        return certify_participation(
            randomizer, schedule, honest, bound=bound, colluding=lost, epsilon=epsilon, delta=delta, effort=effort
        )
    users = schedule.expected_users
    with validation.relabel_errors("certify", "amplify"):
        curve = amplify(
            randomizer, users, bound=bound, colluding=colluding, effort=effort, pair=pair, diameter=diameter
        )
    value = _evaluate_curve(curve, epsilon, delta)
    subject = (
        randomizer if pair is None and diameter is None else ChosenInputs.from_mechanism(randomizer, pair, diameter)
    )
    if isinstance(curve, ChosenInputsCurve):
        found = _certify_all_inputs(randomizer, honest, curve, value, epsilon, delta)
        if found is not None:
            return found
        value = _evaluate_curve(curve.chosen_inputs_curve, epsilon, delta)
    try:
        return certify_value(subject, honest, value, epsilon=epsilon, delta=delta)
    except ValueError:
        if bound != registry.BEST_BOUND_NAME or not value.guarantee:
            raise
        found = _certify_next_best(subject, honest, value, effort, epsilon, delta)
        if found is None:
            raise
        return found


def certify_participation(
    randomizer: Randomizer,
    schedule: Participation,
    users: int,
    *,
    bound: str = registry.BEST_BOUND_NAME,
    colluding: int = 0,
    epsilon: float | None = None,
    delta: float | None = None,
    effort: str = registry.FULL_EFFORT,
) -> Claim:
    """Returns the claim of several rounds or of a sample, by the smallest bound that is proved, or raises ValueError.

    ``users`` is the number of honest users that are drawn, if it is fixed.
    """
    if schedule.came is not None:
        raise ValueError(
            "certificate: expected a sample whose people all take part, got one of which some may have stayed away; "
            "there is no second proof for that."
        )
    _check_no_tails(randomizer)
    registry.check_effort("certify", effort)
    names = (
        [bound]
        if bound != registry.BEST_BOUND_NAME
        else [name for name in provable_bounds() if _is_tried(name, effort)]
    )
    found: list[tuple[float, ClaimRequest]] = []
    for name in names:
        question = ClaimRequest.from_participation(randomizer, name, schedule, users, colluding, epsilon, delta)
        try:
            found.append((question.single_round_value(), question))
        except NotApplicable:
            if bound != registry.BEST_BOUND_NAME:
                raise
    refused: ValueError | None = None
    for _, question in sorted(found, key=lambda one: one[0]):
        try:
            return question.build_claim()
        except ValueError as error:
            refused = refused or error
    raise refused or NotApplicable(
        registry.BEST_BOUND_NAME, f"no bound that is certified applies to {type(randomizer).__name__}."
    )


def _is_tried(name: str, effort: str) -> bool:
    return effort == registry.FULL_EFFORT or not BOUNDS_BY_NAME[name].slow


def certify_value(
    randomizer: Randomizer, users: int, value: BoundValue, *, epsilon: float | None = None, delta: float | None = None
) -> Claim:
    """Returns ``build_claim`` with the least margin for which the second proof succeeds, or raises ValueError."""
    _check_no_tails(randomizer)
    kind = require_evidence_class(randomizer, value)
    finding: Finding | None = None
    for margin in kind.margins(delta):
        claim = build_claim(randomizer, users, value, epsilon=epsilon, delta=delta, margin=margin)
        if not kind.requires_proof:
            return claim
        finding = verify(claim)
        if finding.verdict is Verdict.YES:
            return claim
    assert finding is not None, "every kind has a margin"
    raise ValueError(f"certificate: no second proof of {value.bound} was found: {finding.reason}")


def _certify_all_inputs(
    randomizer: Randomizer,
    users: int,
    curve: ChosenInputsCurve,
    value: BoundValue,
    epsilon: float | None,
    delta: float | None,
) -> Claim | None:
    """Returns the claim for all inputs, which says more than that for chosen ones, if it is smaller and proved."""
    if _evaluate_curve(curve.chosen_inputs_curve, epsilon, delta).upper <= value.upper:
        return None
    try:
        whole = _evaluate_curve(curve.all_inputs_curve, epsilon, delta)
        return certify_value(randomizer, users, whole, epsilon=epsilon, delta=delta)
    except ValueError:
        return None


def _certify_next_best(
    randomizer: Randomizer, users: int, value: BoundValue, effort: str, epsilon: float | None, delta: float | None
) -> Claim | None:
    """Returns the smallest proved claim of a bound other than the best one; None if there is none."""
    found: list[BoundValue] = []
    for name in provable_bounds():
        if name == value.bound or not _is_tried(name, effort):
            continue
        try:
            curve = BOUNDS_BY_NAME[name].curve(randomizer, randomizer.hiding_messages(users))
        except NotApplicable:
            continue
        found.append(_evaluate_curve(curve, epsilon, delta))
    for other in sorted(found, key=float):
        try:
            return certify_value(randomizer, users, other, epsilon=epsilon, delta=delta)
        except ValueError:
            continue
    return None


def _evaluate_curve(curve: PrivacyCurve, epsilon: float | None, delta: float | None) -> BoundValue:
    return curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)


def _check_no_tails(randomizer: Randomizer) -> None:
    if has_tails(randomizer):
        raise ValueError(
            "certificate: where some of a law is cut and added to delta there is no second proof yet; "
            "take a randomizer with a finite local epsilon."
        )
