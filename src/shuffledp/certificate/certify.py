"""``certify``: a privacy statement about a randomizer as a claim that others can prove again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shuffledp import argument
from shuffledp.bounds import BOUND_OF, best
from shuffledp.bounds.amplify import ChosenInputsCurve, amplify
from shuffledp.bounds.schedule import WHO as SCHEDULE, Schedule
from shuffledp.bounds.tails import has_tails
from shuffledp.certificate.chosen_law import ChosenInputs
from shuffledp.certificate.claim import Claim, claim_of, kind_of_value
from shuffledp.certificate.kinds import provable
from shuffledp.certificate.points import PointQuestion
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.verify import verify
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.value import BoundValue


def certify(
    randomizer: Randomizer,
    users: float | None = None,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    bound: str = best.NAME,
    colluding: float = 0,
    of: float | None = None,
    rate: float | str | None = None,
    rounds: float = 1,
    pair: Sequence[Any] | None = None,
    diameter: float | None = None,
    effort: str = best.FULL,
) -> Claim:
    """The claim that the shuffled messages of ``users`` users who all run ``randomizer`` are (ε, δ)-private.

    ``randomizer``: a mechanism or ``VariationRatio`` parameters. ``users``: all of them, of whom ``colluding`` hide
    nobody. Give ``delta`` to claim the smallest ε that is proved, or ``epsilon`` to claim the smallest δ. ``bound``: a
    numeric bound; by default the best one that ``verify`` can prove, with ``effort`` "full" also among those that take
    longer. ``pair`` or ``diameter``: for which inputs of a metric mechanism, as for ``amplify``. ``rounds``, ``of`` and
    ``rate``: how often, and who takes part each time, as in ``Schedule``; ``colluding`` are then some of all who may be
    drawn, and the claim says that nobody may learn who was. It starts from the randomizer, not from a value of a curve:
    a value does not know what it is about, and must not be paired with something else.

    >>> import shuffledp as sdp
    >>> from shuffledp.certificate.certify import certify
    >>> from shuffledp.certificate.verify import verify
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
    delta = None if delta is None else argument.open_probability("certify", "delta", delta)
    epsilon = None if epsilon is None else argument.non_negative("certify", "epsilon", epsilon)
    lost = argument.count("certify", "colluding", colluding, at_least=0)
    with argument.said_by("certify", SCHEDULE):
        # It takes numbers of every type.
        given: Any = {"users": users, "of": of, "rate": rate, "rounds": rounds}
        schedule = Schedule(**given)
    honest = schedule.expected - lost
    _demand_no_tails(randomizer)
    if schedule.rounds > 1 or schedule.is_sampled:
        if pair is not None or diameter is not None:
            raise ValueError("certify: pair and diameter are for one round of all users.")
        if honest < 1:
            raise ValueError(f"certify: colluding must be below the {schedule.expected} users of a round, got {lost}.")
        return scheduled_claim(
            randomizer, schedule, honest, bound=bound, colluding=lost, epsilon=epsilon, delta=delta, effort=effort
        )
    users = schedule.expected
    with argument.said_by("certify", "amplify"):
        curve = amplify(
            randomizer, users, bound=bound, colluding=colluding, effort=effort, pair=pair, diameter=diameter
        )
    value = _asked(curve, epsilon, delta)
    subject = randomizer if pair is None and diameter is None else ChosenInputs.of(randomizer, pair, diameter)
    if isinstance(curve, ChosenInputsCurve):
        found = _claim_for_all_inputs(randomizer, honest, curve, value, epsilon, delta)
        if found is not None:
            return found
        value = _asked(curve.chosen, epsilon, delta)
    try:
        return proved_claim(subject, honest, value, epsilon=epsilon, delta=delta)
    except ValueError:
        if bound != best.NAME or not value.guarantee:
            raise
        found = _next_best(subject, honest, value, effort, epsilon, delta)
        if found is None:
            raise
        return found


def scheduled_claim(
    randomizer: Randomizer,
    schedule: Schedule,
    users: int,
    *,
    bound: str = best.NAME,
    colluding: int = 0,
    epsilon: float | None = None,
    delta: float | None = None,
    effort: str = best.FULL,
) -> Claim:
    """The claim of rounds, or of some who are drawn, by the smallest bound for which it is proved; or a sentence.

    ``users``: how many who do not collude are drawn, where their number is fixed.
    """
    if schedule.came is not None:
        raise ValueError(
            "certificate: expected a sample whose people all take part, got one of which some may have stayed away; "
            "there is no second proof for that."
        )
    _demand_no_tails(randomizer)
    best.demand_effort("certify", effort)
    names = [bound] if bound != best.NAME else [name for name in provable() if _is_looked_at(name, effort)]
    found: list[tuple[float, PointQuestion]] = []
    for name in names:
        question = PointQuestion.of(randomizer, name, schedule, users, colluding, epsilon, delta)
        try:
            found.append((question.asked(), question))
        except NotApplicable:
            if bound != best.NAME:
                raise
    refused: ValueError | None = None
    for _, question in sorted(found, key=lambda one: one[0]):
        try:
            return question.claim()
        except ValueError as error:
            refused = refused or error
    raise refused or NotApplicable(best.NAME, f"no bound that is certified applies to {type(randomizer).__name__}.")


def _is_looked_at(name: str, effort: str) -> bool:
    return effort == best.FULL or not BOUND_OF[name].slow


def proved_claim(
    randomizer: Randomizer, users: int, value: BoundValue, *, epsilon: float | None = None, delta: float | None = None
) -> Claim:
    """``claim_of``, with the least margin that its second proof needs where that is tried; or a sentence."""
    _demand_no_tails(randomizer)
    kind = kind_of_value(randomizer, value)
    finding: Finding | None = None
    for margin in kind.margins(delta):
        claim = claim_of(randomizer, users, value, epsilon=epsilon, delta=delta, margin=margin)
        if not kind.proved_when_made:
            return claim
        finding = verify(claim)
        if finding.verdict is Verdict.YES:
            return claim
    assert finding is not None, "every kind has a margin"
    raise ValueError(f"certificate: no second proof of {value.bound} was found: {finding.reason}")


def _claim_for_all_inputs(
    randomizer: Randomizer,
    users: int,
    curve: ChosenInputsCurve,
    value: BoundValue,
    epsilon: float | None,
    delta: float | None,
) -> Claim | None:
    """The claim of all inputs, which says more than that of the chosen ones, where it is smaller and proved."""
    if _asked(curve.chosen, epsilon, delta).upper <= value.upper:
        return None
    try:
        whole = _asked(curve.all_inputs, epsilon, delta)
        return proved_claim(randomizer, users, whole, epsilon=epsilon, delta=delta)
    except ValueError:
        return None


def _next_best(
    randomizer: Randomizer, users: int, value: BoundValue, effort: str, epsilon: float | None, delta: float | None
) -> Claim | None:
    """The smallest claim that is proved of another bound than the best one; None where there is none."""
    found: list[BoundValue] = []
    for name in provable():
        if name == value.bound or not _is_looked_at(name, effort):
            continue
        try:
            curve = BOUND_OF[name].curve(randomizer, randomizer.hiding_messages(users))
        except NotApplicable:
            continue
        found.append(_asked(curve, epsilon, delta))
    for other in sorted(found, key=float):
        try:
            return proved_claim(randomizer, users, other, epsilon=epsilon, delta=delta)
        except ValueError:
            continue
    return None


def _asked(curve: PrivacyCurve, epsilon: float | None, delta: float | None) -> BoundValue:
    return curve.epsilon(delta) if delta is not None else curve.delta(epsilon or 0.0)


def _demand_no_tails(randomizer: Randomizer) -> None:
    if has_tails(randomizer):
        raise ValueError(
            "certificate: where some of a law is cut and added to delta there is no second proof yet; "
            "take a randomizer with a finite local epsilon."
        )
