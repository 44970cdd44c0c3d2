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
from shuffledp_verify.composition import Draw, GridTooLong, RoundsComposition, SampleSizes, SizePoints
from shuffledp_verify.proofs import RoundProof

from shuffledp._core import validation
from shuffledp._core.errors import NotApplicable
from shuffledp._core.formatting import INFINITE_EPSILON_TEXT
from shuffledp.bounds import pointwise_minimum, registry
from shuffledp.bounds.amplify import ChosenInputsCurve, amplify
from shuffledp.bounds.participation import Participation, format_rate
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.bounds.tail_truncation import has_tails
from shuffledp.certificates.claim import (
    Claim,
    build_claim,
    raise_pair,
    require_evidence_class,
    software_versions,
    verify,
)
from shuffledp.certificates.mechanism_evidence import (
    ChosenInputs,
    MechanismRoundEvidence,
    MechanismRoundsEvidence,
    count_hiding_messages,
    provable_bounds,
)
from shuffledp.privacy.curve import MAX_EPSILON as MAX_CURVE_EPSILON, BoundValue, PrivacyCurve
from shuffledp.privacy.privacy_loss import round_step
from shuffledp.privacy.randomizer_interface import Randomizer

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
"""The same if the deviation is more than the share MAX_SPARSE_DEVIATION of the mean."""
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
    """The statement to claim: all rounds of a participation, by one bound; ε at δ, or δ at ε."""

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
        cls, randomizer: Randomizer, bound: str, participation: Participation, users: int, colluding: int,
        epsilon: float | None, delta: float | None,
    ) -> ClaimRequest:  # fmt: skip
        """Returns the request; ``users`` is the number of honest users of a round if it is fixed."""
        if not participation.is_sampled:
            return cls(randomizer, bound, users, participation.rounds, None, epsilon, delta)
        assert participation.of is not None, "a sample is drawn from a population"
        if participation.rate is None:
            draw = Draw(participation.of, colluding, sample_size=participation.expected_users)
        else:
            draw = Draw(participation.of, colluding, rate=format_rate(participation.rate))
            users = max(1, math.floor(draw.chance * draw.honest_population))
        return cls(randomizer, bound, users, participation.rounds, draw, epsilon, delta)

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
        assert kind.for_all_inputs, "rounds and samples are claimed for all inputs"
        if self.delta is None:
            return value.upper
        return curve.epsilon(min(0.5, self.delta / self.rounds / self.share)).upper

    def build_claim(self) -> Claim:
        """Returns the claim with its proved points, or raises ValueError if there is none."""
        prover = _PointProver(self)
        sizes, step = prover.prove_points()
        plan = RoundsComposition(self.rounds, self.draw, step)
        largest_epsilon = max(epsilon for size in sizes for epsilon, _ in size.points)
        once = prover.kind.from_randomizer(self.randomizer, self.users, self.bound, largest_epsilon)
        claimed = _compute_claimed_pair(plan, sizes, self.epsilon, self.delta)
        others = {
            size.users: once.with_users(self.randomizer, size.users) for size in sizes if size.users != self.users
        }
        evidence_by_size = {
            users: other
            for users, other in others.items()
            if set(other.user_dependent_fields) & set(other.to_document())
        }
        evidence = MechanismRoundsEvidence(plan, tuple(sizes), once, evidence_by_size)
        return Claim(
            prover.description, self.users, *claimed, self.bound, prover.theorem, software_versions(), evidence
        )


class _PointProver:
    """Chooses and proves the points of one request."""

    def __init__(self, request: ClaimRequest) -> None:
        self.request = request
        self.curve = request.curve(request.users)
        value = self.curve.delta(0.0)
        self.kind: type[MechanismRoundEvidence] = require_evidence_class(request.randomizer, value)
        self.theorem = value.theorem
        self.description = self.kind.describe_randomizer(request.randomizer)
        self.known: dict[tuple[int, float], float] = {}
        self.curves = {request.users: self.curve}

    @cached_property
    def laws(self) -> RoundProof:
        """The laws that the second proof will rebuild."""
        request, any_epsilon = self.request, 0.0
        evidence = self.kind.from_randomizer(request.randomizer, request.users, request.bound, any_epsilon)
        numbers = (request.users, any_epsilon, 1.0)
        claim = Claim(self.description, *numbers, request.bound, self.theorem, software_versions(), evidence)
        return evidence.rebuild_proof(claim)

    def is_proved(self, users: int, epsilon: float, delta: float) -> bool:
        finding = self.laws.decide(users, Fraction(epsilon), Fraction(delta), lambda text: None)
        return finding.verdict is Verdict.YES

    def prove_points(self) -> tuple[list[SizePoints], float]:
        """Returns the proved points for each size, and the step of the grid."""
        request = self.request
        if request.rounds > 1:
            return self._prove_composed_points()
        if request.draw is None or request.draw.sample_size is not None:
            return self._prove_single_point()
        return self._prove_poisson_points()

    # --- One round ---

    def _prove_single_point(self) -> tuple[list[SizePoints], float]:
        """Returns the claimed point itself, without sampling."""
        request = self.request
        for margin in DELTA_MARGINS:
            if request.delta is None:
                epsilon = _inner_epsilon(request.epsilon or 0.0, request.share) * (1 - 1e-15)
                delta = min(1.0, self.curve.delta(epsilon).upper * (1 + margin))
            else:
                delta = min(1.0, math.nextafter(request.delta / request.share, 0.0))
                epsilon = self.curve.epsilon(delta / (1 + margin)).upper
            if math.isinf(epsilon):
                break
            if self.is_proved(request.users, epsilon, delta):
                return [SizePoints(request.users, ((epsilon, delta),))], 1.0
        raise _no_proof_error(request.bound)

    def _prove_poisson_points(self) -> tuple[list[SizePoints], float]:
        """Returns, for each size, a few points around the claimed one, for the range of sizes that it stands for."""
        request = self.request
        assert request.draw is not None, "called only if coins decide who takes part"
        low = high = request.epsilon
        if request.delta is not None:
            inner = self.curve.epsilon(min(0.5, request.delta / request.share)).upper
            if math.isinf(inner):
                raise ValueError(
                    f"certificate: epsilon is {INFINITE_EPSILON_TEXT} at this delta; claim a larger delta."
                )
            about = math.log1p(request.share * math.expm1(inner))
            low, high = about * (1 - 1 / math.sqrt(request.users) / 4), about * (1 + 2 / math.sqrt(request.users))
        coins = SampleSizes(request.draw.honest_population, request.draw.chance)
        covered = math.ceil(coins.mean + COVERED_DEVIATIONS * coins.deviation)
        largest = max(covered, coins.upper_quantile(OMITTED_DELTA_SHARE * self._target))

        def inner_epsilons(fewest: int, most: int, count: int) -> list[float]:
            """Returns ε without sampling for samples of these sizes."""
            shares = (min(1.0, drawn / coins.people) for drawn in (most, fewest))
            first, last = (
                _inner_epsilon(epsilon or 0.0, share) for epsilon, share in zip((low, high), shares, strict=True)
            )
            return [float(epsilon) for epsilon in np.linspace(first, last, count)]

        sizes = []
        for (users, stride), (after, _) in pairwise([*self._sizes, (covered, 1)]):
            epsilons = inner_epsilons(users, max(after, users), max(MIN_POINTS_PER_SIZE, POINTS_PER_SIZE // stride))
            if after == covered:
                epsilons += inner_epsilons(covered, largest, MIN_POINTS_PER_SIZE)
            sizes.append(self._prove_size(self._engine_points(users, sorted(set(epsilons)))))
        return sizes, 1.0

    # --- Many rounds ---

    def _prove_composed_points(self) -> tuple[list[SizePoints], float]:
        """Returns proved points, so dense that more would hardly improve the result."""
        step = round_step(INITIAL_GRID_STEP * self._deviation)
        value, step = self._estimate(step)
        for _ in range(MAX_HALVINGS):
            finer, half = self._estimate(step / 2)
            gained = 1 - finer / value if 0 < value < math.inf else 0.0
            if half == step or gained <= 0:
                break
            value, step = finer, half
            # Chords cost the square of the step, so the next half would gain a quarter of this one.
            if gained <= 3 * self._accuracy:
                break
        if math.isinf(value):
            raise ValueError(f"certificate: epsilon is {INFINITE_EPSILON_TEXT} at this delta; claim a larger delta.")
        return [self._prove_size(self._compute_points(users, stride, step)) for users, stride in self._sizes], step

    @property
    def _accuracy(self) -> float:
        """Relative accuracy of ε; that of δ is larger by about its logarithm."""
        return GRID_ACCURACY if self.request.epsilon is None else GRID_ACCURACY * max(1.0, -2 * math.log(self._target))

    def _estimate(self, step: float) -> tuple[float, float]:
        """Returns the result of the engine's points for the usual size, as if it were fixed, and the step."""
        request, (users, stride) = self.request, self._sizes[-1]
        last = max(self._grid_positions(users, step, stride))
        if last > MAX_STEPS:
            step *= 2.0 ** math.ceil(math.log2(last / MAX_STEPS))
        draw = request.draw and Draw(request.draw.population, request.draw.colluding, sample_size=request.users)
        sizes = [self._compute_points(users, stride, step)]
        try:
            epsilon, delta = _compute_claimed_pair(
                RoundsComposition(request.rounds, draw, step), sizes, request.epsilon, request.delta
            )
        except ValueError:
            return math.inf, step
        return (epsilon if request.epsilon is None else delta), step

    def _compute_points(self, users: int, stride: int, step: float) -> SizePoints:
        """Returns the engine's points for this many users."""
        share = self.request.share
        places = self._grid_positions(users, step, stride)
        return self._engine_points(users, [_inner_epsilon(place * step, share) for place in places])

    def _prove_size(self, size: SizePoints) -> SizePoints:
        """Returns each point with the least margin with which it is proved; unproved points are left out."""
        proved = []
        for epsilon, delta in size.points:
            for margin in DELTA_MARGINS if size.users >= SMALLEST_MARGIN_USERS else DELTA_MARGINS[1:]:
                raised = min(1.0, max(delta * (1 + margin), MIN_TARGET_DELTA))
                if self.is_proved(size.users, epsilon, raised):
                    proved.append((epsilon, raised))
                    break
        if not proved:
            raise _no_proof_error(self.request.bound)
        return SizePoints(size.users, tuple(proved))

    @cached_property
    def _sizes(self) -> list[tuple[int, int]]:
        """Numbers of users, and the factors by which their points are wider apart."""
        draw, request = self.request.draw, self.request
        if draw is None or draw.sample_size is not None:
            return [(request.users, 1)]
        coins = SampleSizes(draw.honest_population, draw.chance)
        starts = SIZE_POSITIONS if coins.deviation <= MAX_SPARSE_DEVIATION * coins.mean else DENSE_SIZE_POSITIONS
        least, deviations = 1, -starts[0][0]
        omitted = OMITTED_DELTA_SHARE * self._target / request.rounds
        while (size := math.floor(coins.mean - deviations * coins.deviation)) > 1:
            if coins.tail_below(size) <= omitted:
                least = size
                break
            deviations += 0.5
        spacing, stride = max(1, math.floor(SIZE_DISTANCE * coins.deviation)), starts[0][1]
        cuts = [(math.floor(coins.mean + place * coins.deviation), stride) for place, stride in starts]
        lower = [(cut, stride) for cut in range(least, max(least + 1, cuts[0][0]), spacing)]
        return [*lower, *((cut, stride) for cut, stride in cuts if lower[-1][0] < cut <= draw.honest_population)]

    def _grid_positions(self, users: int, step: float, stride: int) -> Iterator[int]:
        """Yields grid points, dense where the loss of all rounds comes from, until the curve is near 0."""
        request, deviation = self.request, self._deviation
        middle = math.sqrt(-2 * math.log(self._target) / request.rounds) * deviation
        negligible = INFINITE_LOSS_DELTA_SHARE * self._target / request.rounds / request.share
        (floor,) = self._engine_deltas(users, [MAX_CURVE_EPSILON])
        place, width = 0, 1
        while True:
            yield place
            inner = _inner_epsilon(place * step, request.share)
            (value,) = self._engine_deltas(users, [inner])
            if value <= max(negligible, floor * 1.0001) or inner >= MAX_CURVE_EPSILON:
                return
            distance = (place * step - middle) / deviation
            wider = int(math.exp(min(50.0, distance * distance / 6)))
            cap = (
                max(1, int(MAX_POINT_DISTANCE * deviation / step))
                if distance < 6
                else math.ceil(width * POINT_DISTANCE_GROWTH)
            )
            width = max(1, min(wider, cap))
            place += width * stride

    def _engine_points(self, users: int, epsilons: Sequence[float]) -> SizePoints:
        """Returns the engine's points at each ε, without those that promise nothing."""
        points = zip(epsilons, self._engine_deltas(users, epsilons), strict=True)
        return SizePoints(users, tuple((epsilon, delta) for epsilon, delta in points if delta < 1))

    def _engine_deltas(self, users: int, epsilons: Sequence[float]) -> list[float]:
        """Returns the engine's δ without sampling at each ε, computed once."""
        missing = [epsilon for epsilon in epsilons if (users, epsilon) not in self.known]
        if missing:
            if users not in self.curves:
                self.curves[users] = self.request.curve(users)
            deltas = self.curves[users].profile(np.minimum(missing, MAX_CURVE_EPSILON)).upper.tolist()
            self.known |= {(users, epsilon): delta for epsilon, delta in zip(missing, deltas, strict=True)}
        return [self.known[users, epsilon] for epsilon in epsilons]

    @cached_property
    def _deviation(self) -> float:
        """Approximate deviation of one round's loss: its variance is 4∫δ dε if losses are small."""
        request = self.request
        (first,) = self._engine_deltas(request.users, [0.0])
        scale = max(first * request.share, MIN_SURVEYED_DELTA) * math.sqrt(2 * math.pi)
        epsilons, values = [0.0], [first * request.share]
        while values[-1] > MIN_SURVEYED_DELTA and epsilons[-1] < MAX_CURVE_EPSILON:
            epsilons.append(0.05 * scale * SURVEY_RATIO ** len(epsilons))
            (value,) = self._engine_deltas(request.users, [_inner_epsilon(epsilons[-1], request.share)])
            values.append(value * request.share)
        means = np.sqrt(np.array(values[1:]) * np.array(values[:-1]))
        return math.sqrt(max(4 * float(np.sum(np.diff(epsilons) * means)), 1e-30))

    @cached_property
    def _target(self) -> float:
        """The claimed δ, or an estimate of it."""
        request = self.request
        if request.delta is not None:
            return max(request.delta, MIN_TARGET_DELTA)
        deviation = self._deviation * math.sqrt(request.rounds)
        quotient = (request.epsilon or 0.0) / deviation
        square = quotient * quotient
        return min(0.5, max(MIN_TARGET_DELTA, 0.4 * deviation * math.exp(-square / 2) / (1 + square)))


def _inner_epsilon(epsilon: float, share: float) -> float:
    """Returns log(1 + (e^ε − 1)/share), capped at the largest ε that is evaluated."""
    if share == 1.0 or epsilon >= MAX_CURVE_EPSILON:
        return min(epsilon, MAX_CURVE_EPSILON)
    return min(MAX_CURVE_EPSILON, math.log1p(math.expm1(epsilon) / share))


def _compute_claimed_pair(
    plan: RoundsComposition, sizes: Sequence[SizePoints], epsilon: float | None, delta: float | None
) -> tuple[float, float]:
    """Returns (ε, δ); the one that is None is what the second proof gives, rounded up."""
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
    exact, delta = Fraction(epsilon), 1.0
    # The outermost losses are cut depending on δ: repeat with the resulting δ.
    while True:
        again = float(plan.bound(sizes, Fraction(max(delta, MIN_TARGET_DELTA))).delta(exact).upper())
        if again >= 0.9 * delta or again <= MIN_TARGET_DELTA:
            break
        delta = again
    return raise_pair(max(again, MIN_TARGET_DELTA), epsilon, None, CLAIM_MARGIN)


def _compute_claimed_epsilon(is_proved: Callable[[float], bool], delta: float) -> tuple[float, float]:
    low, high = 0.0, 1e-6
    while not is_proved(high):
        low, high = high, 4 * high
        if high > MAX_CURVE_EPSILON:
            raise ValueError(f"certificate: epsilon is {INFINITE_EPSILON_TEXT} at this delta; claim a larger delta.")
    while high - low > EPSILON_TOLERANCE * high and high > 1e-12:
        middle = (low + high) / 2
        low, high = (low, middle) if is_proved(middle) else (middle, high)
    return raise_pair(high, None, delta, CLAIM_MARGIN)


def _no_proof_error(bound: str) -> ValueError:
    return ValueError(f"certificate: no second proof of {bound} was found for the rounds; take another bound.")


def certify(
    randomizer: Randomizer,
    users: float | None = None,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    bound: str = pointwise_minimum.BEST_BOUND_NAME,
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
    colluders = validation.count("certify", "colluding", colluding, at_least=0)
    with validation.relabel_errors("certify", "Participation"):
        # Participation accepts numbers of every type.
        options: Any = {"users": users, "of": of, "rate": rate, "rounds": rounds}
        participation = Participation(**options)
    honest = participation.expected_users - colluders
    _check_no_tails(randomizer)
    if participation.rounds > 1 or participation.is_sampled:
        if pair is not None or diameter is not None:
            raise ValueError("certify: pair and diameter are for one round of all users.")
        if honest < 1:
            raise ValueError(
                f"certify: colluding must be below the {participation.expected_users} users of a round, "
                f"got {colluders}."
            )
        return certify_participation(
            randomizer,
            participation,
            honest,
            bound=bound,
            colluding=colluders,
            epsilon=epsilon,
            delta=delta,
            effort=effort,
        )
    users = participation.expected_users
    with validation.relabel_errors("certify", "amplify"):
        curve = amplify(
            randomizer, users, bound=bound, colluding=colluding, effort=effort, pair=pair, diameter=diameter
        )
    value = _evaluate_curve(curve, epsilon, delta)
    subject = (
        randomizer if pair is None and diameter is None else ChosenInputs.from_mechanism(randomizer, pair, diameter)
    )
    if isinstance(curve, ChosenInputsCurve):
        claim = _certify_all_inputs(randomizer, honest, curve, value, epsilon, delta)
        if claim is not None:
            return claim
        value = _evaluate_curve(curve.chosen_inputs_curve, epsilon, delta)
    try:
        return certify_value(subject, honest, value, epsilon=epsilon, delta=delta)
    except ValueError:
        if bound != pointwise_minimum.BEST_BOUND_NAME or not value.guarantee:
            raise
        claim = _certify_next_best(subject, honest, value, effort, epsilon, delta)
        if claim is None:
            raise
        return claim


def certify_participation(
    randomizer: Randomizer,
    participation: Participation,
    users: int,
    *,
    bound: str = pointwise_minimum.BEST_BOUND_NAME,
    colluding: int = 0,
    epsilon: float | None = None,
    delta: float | None = None,
    effort: str = registry.FULL_EFFORT,
) -> Claim:
    """Returns the claim of several rounds or of a sample, by the smallest bound that is proved, or raises ValueError.

    ``users`` is the number of honest users in a sample, if that is fixed.
    """
    if participation.came is not None:
        raise ValueError(
            "certificate: expected a sample whose people all take part, got one of which some may have stayed away; "
            "there is no second proof for that."
        )
    _check_no_tails(randomizer)
    registry.check_effort("certify", effort)
    names = (
        [bound]
        if bound != pointwise_minimum.BEST_BOUND_NAME
        else [name for name in provable_bounds() if _is_tried(name, effort)]
    )
    requests: list[tuple[float, ClaimRequest]] = []
    for name in names:
        request = ClaimRequest.from_participation(randomizer, name, participation, users, colluding, epsilon, delta)
        try:
            requests.append((request.single_round_value(), request))
        except NotApplicable:
            if bound != pointwise_minimum.BEST_BOUND_NAME:
                raise
    failure: ValueError | None = None
    for _, request in sorted(requests, key=lambda valued: valued[0]):
        try:
            return request.build_claim()
        except ValueError as error:
            failure = failure or error
    raise failure or NotApplicable(
        pointwise_minimum.BEST_BOUND_NAME, f"no bound that is certified applies to {type(randomizer).__name__}."
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
    values: list[BoundValue] = []
    for name in provable_bounds():
        if name == value.bound or not _is_tried(name, effort):
            continue
        try:
            curve = BOUNDS_BY_NAME[name].curve(randomizer, randomizer.hiding_messages(users))
        except NotApplicable:
            continue
        values.append(_evaluate_curve(curve, epsilon, delta))
    for other in sorted(values, key=float):
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
