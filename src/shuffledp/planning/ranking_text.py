"""Text of a ranking: one row per mechanism, notes on winners and columns, and guarantees with fewer users."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from shuffledp._core.errors import NumericalError
from shuffledp._core.formatting import format_average, format_epsilon_equation, format_exact, format_rounded_up
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.bounds.registry import QUICK_EFFORT
from shuffledp.planning.goal import LOCAL, NOISE, SHUFFLER, Goal
from shuffledp.planning.mechanism_calibration import Candidate
from shuffledp.planning.plan import Plan

# --- Guarantees with fewer users ---


REDUCED_SHARES = {"half": 2, "a tenth": 10}
"""Names of the fractions of users that take part, with their denominators."""


@dataclass(frozen=True)
class TurnoutGuarantee:
    """The guarantee of all rounds together if only a part of the users take part."""

    share: str
    users: int
    epsilon: float | None
    """The certified central ε at the plan's δ; None if nothing is proved."""
    reason: str = ""
    """The reason if nothing is proved."""

    @property
    def text(self) -> str:
        """The guarantee as a short text, rounded up."""
        return "no central ε" if self.epsilon is None else format_epsilon_equation(self.epsilon, 4)

    def document(self) -> dict[str, Any]:
        """Returns the JSON document."""
        return dict(vars(self))


def reduced_turnout_guarantees(plan: Plan) -> tuple[TurnoutGuarantee, ...]:
    """Returns the guarantees for half and for a tenth of the planned users, with as many colluding as planned."""
    shares = {share: plan.users // part for share, part in REDUCED_SHARES.items()}
    return tuple(guarantee_at_turnout(plan, users, share) for share, users in shares.items() if users)


def guarantee_at_turnout(plan: Plan, users: int, share: str = "these") -> TurnoutGuarantee:
    """Returns the guarantee of the plan if exactly ``users`` take part."""
    try:
        # With a random number of users many sizes are computed: only the quick bounds are fast enough.
        effort = plan.effort if plan.rate is None else QUICK_EFFORT
        schedule = plan.schedule.with_respondents(users, plan.delta)
        curve = schedule.curve(plan.mechanism, bound=plan.bound, colluding=plan.colluding, effort=effort)
        if not curve.guarantee:
            return TurnoutGuarantee(share, users, None, f"The plan's bound {plan.bound} is no guarantee.")
        return TurnoutGuarantee(share, users, curve.epsilon(plan.delta).upper)
    except (ValueError, NumericalError) as error:
        # Too few honest users for the mechanism or for any theorem: an answer, not an error of the caller.
        return TurnoutGuarantee(share, users, None, str(error))


def known_sample_epsilon(plan: Plan) -> float:
    """Returns ε of all rounds at the plan's δ if everybody learns who was drawn, for a person drawn every time."""
    effort = plan.effort if plan.rate is None else QUICK_EFFORT
    curve = plan.schedule.disclosed_sample_curve(
        plan.mechanism, bound=plan.bound, colluding=plan.colluding, effort=effort
    )
    return curve.epsilon(plan.delta).upper


HEADINGS = (
    "mechanism", "error", "× curator", "local ε", "bits", "sealed", "msgs", "liar", "client", "server", "rests on",
)  # fmt: skip
RIGHT_ALIGNED_HEADINGS = HEADINGS[1:-1]
"""The columns that are aligned to the right."""
MAX_LINE_WIDTH = 100
"""Width of lines, in columns of a terminal."""
TABLE_LAYOUTS = (
    (2, HEADINGS),
    (1, HEADINGS),
    (1, tuple(name for name in HEADINGS if name not in ("client", "server"))),
)
"""Gaps and columns, in order of preference: a narrow terminal does without the times."""
WINNER_MARK = "*"
"""Mark of a winner."""


def format_title(goal: Goal) -> str:
    """Returns the heading: task, users, target and limits."""
    rounds = "" if goal.rounds == 1 else f", {goal.rounds} rounds"
    limits = f"; {goal.limits.describe()}" if goal.limits.describe() else ""
    target = f"ε = {format_exact(goal.target.epsilon)}, δ = {format_exact(goal.target.delta)}"
    return f"{goal.task.name}: {goal.describe_users()}, {target}{rounds}{limits}"


def format_row(offer: Candidate, wins: bool) -> list[str]:
    """Returns the row of one mechanism, under ``HEADINGS``; winners are marked."""
    local = offer.mechanism.local_epsilon
    return [
        f"{offer.name} {WINNER_MARK}" if wins else offer.name,
        f"{offer.standard_error:.4g}",
        _format_ratio(offer),
        "–" if local is None else f"{float(format_rounded_up(local, 3)):.3g}",
        _format_bits(offer.bits),
        _format_bits(offer.sealed_bits),
        format_average(offer.messages),
        _format_influence(offer.influence),
        _format_duration(offer.cost.encoding_seconds),
        _format_duration(offer.cost.server_seconds(offer.goal.users)),
        offer.rests_on,
    ]


def format_notes(
    offers: Sequence[Candidate],
    local: Candidate | None,
    by_shuffler: Candidate | None,
    by_noise: Candidate | None,
    fewer: Mapping[str, Sequence[TurnoutGuarantee]],
    known: Mapping[str, float],
) -> list[str]:
    """Returns the paragraphs on the winners, a trusted curator, fewer users, and the meaning of the columns."""
    goal = offers[0].goal
    central, caveat = goal.central_baseline, goal.task.ranking_remark([offer.mechanism for offer in offers])
    return [
        f"A trusted curator's error ({central.noise} noise): {central.standard_error:.4g}.",
        _describe_local_winner(goal, local, by_shuffler),
        _describe_shuffler_winner(goal, local, by_shuffler),
        *([] if by_noise is None else [_describe_noise_winner(goal, by_noise)]),
        *_describe_question_errors([offer for offer in (local, by_shuffler, by_noise) if offer is not None]),
        *(_describe_reduced_turnout(goal, name, found) for name, found in fewer.items() if found),
        *_describe_sampling(goal, known),
        *([caveat] if caveat else []),
        f"error: the standard error in {goal.task.unit}, for {goal.task.data_description} (root mean square over all "
        f"estimates).",
        "bits, msgs: sent by each user; sealed: bits where each message is sealed to the analyst and all of a user's "
        "to the shuffler (HPKE, X25519).",
        "liar: the most that one dishonest user can move an estimate by, in users; –: not known, ∞: there is no limit.",
        f"client: time to encode one user, server: to read all messages{goal.task.timed_estimator_description}, as "
        f"measured here; left "
        f"out where the terminal is narrow.",
        "rests on: the central ε always rests on a shuffler that hides who sent what; without it there is left the "
        "local ε, the same if seeds are pseudorandom, or nothing.",
    ]


def wrap_paragraphs(paragraphs: list[str], width: int = MAX_LINE_WIDTH, indent: str = "") -> list[str]:
    """Wraps paragraphs to lines of at most ``width`` and at most ``MAX_LINE_WIDTH``."""
    most, below = min(width, MAX_LINE_WIDTH), f"{indent}  "
    each = (wrap(text, most, initial_indent=indent, subsequent_indent=below, break_on_hyphens=False)
            for text in paragraphs)  # fmt: skip
    return [line for lines in each for line in lines]


def explain_missing_plan(first: Candidate) -> str:
    """Returns the reason why there is no plan of the requested kind, and the best other offer, ``first``."""
    if first.goal.rests_on == NOISE:
        return (
            f"of no mechanism that meets the target does the shuffler draw the noise; leave --rests-on {NOISE} out to "
            f"get {first.name}."
        )
    if first.has_local_epsilon:
        return (
            f"every mechanism that meets the target keeps a local ε, and none rests on the shuffler alone; leave "
            f"--rests-on out to get {first.name}."
        )
    return (
        f"no mechanism that meets the target keeps a local ε even from the shuffler; ask by --rests-on shuffler for "
        f"{first.name}, which rests on the shuffler alone."
    )


def _describe_local_winner(goal: Goal, local: Candidate | None, by_shuffler: Candidate | None) -> str:
    if local is None:
        if by_shuffler is None:
            return "None keeps a local ε."
        return f"No plan: {explain_missing_plan(by_shuffler)}" if goal.rests_on == LOCAL else "None keeps a local ε."
    ending = "; this is the plan." if goal.rests_on == LOCAL else "."
    return (
        f"{WINNER_MARK} {local.name} is the best that keeps a local ε even from the shuffler: "
        f"{_describe_error(local)}{ending}"
    )


def _describe_shuffler_winner(goal: Goal, local: Candidate | None, by_shuffler: Candidate | None) -> str:
    if by_shuffler is None:
        if goal.rests_on != SHUFFLER or local is None:
            return "None rests on the shuffler alone."
        return f"No plan: {explain_missing_plan(local)}"
    ending = "this is the plan" if goal.rests_on == SHUFFLER else f"it must be asked for: --rests-on {SHUFFLER}"
    return (
        f"{WINNER_MARK} {by_shuffler.name} is the best that rests on the shuffler alone: "
        f"{_describe_error(by_shuffler)}. Its "
        f"messages tell the true value to whoever links them to their sender; {ending}."
    )


def _describe_noise_winner(goal: Goal, by_noise: Candidate) -> str:
    ending = "this is the plan" if goal.rests_on == NOISE else f"it must be asked for: --rests-on {NOISE}"
    return (
        f"{by_noise.name}: where the shuffler draws the noise, every user sends {format_average(by_noise.messages)} "
        f"{'message' if by_noise.messages == 1 else 'messages'}, and the promise "
        f"{_describe_noise_dependence(by_noise)} "
        f"on the shuffler's drawing it and keeping it secret; {ending}."
    )


def _describe_noise_dependence(by_noise: Candidate) -> str:
    if by_noise.mechanism.message_plan.is_participation_independent:
        return "does not depend on how many take part or collude, but"
    return "depends on how many take part, and"


def _describe_question_errors(winners: Sequence[Candidate]) -> list[str]:
    """Returns one paragraph per winner: the mechanism of each question of a survey, and its error in its own unit."""
    return [
        f"{offer.name}: "
        + "; ".join(
            f"{one.name} by {one.mechanism}, error {one.standard_error:.4g} {one.unit}, "
            f"{one.times_curator:.3g} times a curator's who asks only this"
            for one in offer.question_errors
        )
        + "."
        for offer in winners
        if offer.question_errors
    ]


def _describe_reduced_turnout(goal: Goal, name: str, fewer: Sequence[TurnoutGuarantee]) -> str:
    """Returns the guarantees of a winner if fewer users take part."""
    cases = " and ".join(f"{each.text} with {each.users:,} users ({each.share})" for each in fewer)
    ending = "; --minimum plans for that." if goal.minimum is None else "."
    return f"If fewer take part, {name} promises, at δ = {format_exact(goal.target.delta)}, {cases}{ending}"


def _describe_sampling(goal: Goal, known: Mapping[str, float]) -> list[str]:
    """Returns the condition of the guarantee if users are drawn, and the guarantees of the winners without it."""
    if not goal.schedule.is_sampled:
        return []
    left = " and ".join(f"{name} promises {format_epsilon_equation(epsilon, 4)}" for name, epsilon in known.items())
    return [f"Drawn: {goal.schedule.describe()}. The target {SAMPLING_SECRECY_CONDITION}; if it is known, {left}."]


def _describe_error(offer: Candidate) -> str:
    return f"error {offer.standard_error:.4g}, {offer.curator_error_ratio:.3g} times the curator's"


def align_table(rows: list[list[str]], width: float = math.inf) -> list[str]:
    """Returns the table as lines of plain text, laid out to fit a terminal of this width if possible."""
    lines: list[str] = []
    for gap, names in TABLE_LAYOUTS:
        places = [HEADINGS.index(name) for name in names]
        lines = _align_columns([[row[place] for place in places] for row in (list(HEADINGS), *rows)], gap)
        if max(map(len, lines)) <= width:
            break
    return lines


def _align_columns(table: list[list[str]], gap: int) -> list[str]:
    """Aligns columns, those of numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        (" " * gap)
        .join(
            cell.rjust(width) if name in RIGHT_ALIGNED_HEADINGS else cell.ljust(width)
            for cell, width, name in zip(row, widths, table[0], strict=True)
        )
        .rstrip()
        for row in table
    ]


def _format_ratio(offer: Candidate) -> str:
    """Formats the ratio to the curator's error with three digits."""
    times = offer.curator_error_ratio
    return f"{times:,.0f}" if times >= 100 else f"{times:.3g}"


def _format_influence(users: float | None) -> str:
    """Formats the largest influence of one dishonest user."""
    if users is None:
        return "–"
    return "∞" if math.isinf(users) else f"{users:,.0f}" if users >= 1000 else f"{users:.3g}"


def _format_bits(bits: int) -> str:
    """Formats bits exactly; from a hundred thousand on, with three digits."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if bits >= max(size, 1e5):
            return f"{bits / size:.3g}{unit}" if bits < 999.5 * size else f"{bits / size:,.0f}{unit}"
    return f"{bits:,}"


def _format_duration(seconds: float) -> str:
    """Formats a duration with one digit, the precision of a short measurement."""
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        digit = float(f"{seconds / size:.1g}")
        if digit >= 1:
            return f"{digit:g} {unit}"
    return "0"
