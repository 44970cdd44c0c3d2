"""Text of a ranking: a row for each mechanism, notes on winners and columns, and guarantees with fewer users."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from shuffledp._core.formatting import format_average, format_epsilon_equation, format_exact, format_rounded_up
from shuffledp._core.message_phrases import Argument, Phrase, phrase, write_option
from shuffledp.bounds.participation import SAMPLING_SECRECY_CONDITION
from shuffledp.planning.goal import LOCAL, NOISE, SHUFFLER, Goal
from shuffledp.planning.mechanism_calibration import Candidate
from shuffledp.planning.turnout_guarantees import TurnoutGuarantee

if TYPE_CHECKING:
    from shuffledp.planning.ranking import Ranking


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


def format_row(candidate: Candidate, wins: bool) -> list[str]:
    """Returns the row of one mechanism, under ``HEADINGS``; winners are marked."""
    local = candidate.mechanism.local_epsilon
    return [
        f"{candidate.name} {WINNER_MARK}" if wins else candidate.name,
        f"{candidate.standard_error:.4g}",
        _format_ratio(candidate),
        "–" if local is None else f"{float(format_rounded_up(local, 3)):.3g}",
        _format_bits(candidate.bits),
        _format_bits(candidate.sealed_bits),
        format_average(candidate.messages),
        _format_influence(candidate.influence),
        _format_duration(candidate.cost.encoding_seconds),
        _format_duration(candidate.cost.server_seconds(candidate.goal.users)),
        candidate.rests_on,
    ]


def format_notes(ranking: Ranking) -> list[str]:
    """Returns the paragraphs on the winners, a trusted curator, fewer users, and the meaning of the columns."""
    goal, local, by_shuffler, by_noise = (
        ranking.goal, ranking.best_local, ranking.best_by_shuffler, ranking.best_by_noise,
    )  # fmt: skip
    central, winners = goal.central_baseline, [best for best in (local, by_shuffler, by_noise) if best is not None]
    remark = goal.task.ranking_remark([candidate.mechanism for candidate in ranking.candidates])
    return [
        f"A trusted curator's error ({central.noise} noise): {central.standard_error:.4g}.",
        _describe_local_winner(goal, local, by_shuffler),
        _describe_shuffler_winner(goal, local, by_shuffler),
        *([] if by_noise is None else [_describe_noise_winner(goal, by_noise)]),
        *map(_describe_question_errors, [winner for winner in winners if winner.question_errors]),
        *(
            _describe_reduced_turnout(goal, name, fewer)
            for name, fewer in ranking.reduced_turnout_guarantees.items()
            if fewer
        ),
        *_describe_sampling(goal, ranking.known_sample_epsilons),
        *([remark] if remark else []),
        f"error: the standard error in {goal.task.unit}, for {goal.task.data_description} (root mean square over all "
        f"estimates).",
        "bits, msgs: sent by each user; sealed: bits if each message is sealed to the analyst and all messages of a "
        "user to the shuffler (HPKE, X25519).",
        "liar: the largest influence of one dishonest user on an estimate, in users; –: not known, ∞: unlimited.",
        f"client: time to encode one user, server: to read all messages{goal.task.timed_estimator_description}, as "
        f"measured here; omitted on a narrow terminal.",
        "rests on: the central ε always rests on a shuffler that hides who sent what; without it the local ε remains, "
        "the local ε if seeds are pseudorandom, or nothing.",
    ]


def wrap_paragraphs(paragraphs: list[str], width: int = MAX_LINE_WIDTH, indent: str = "") -> list[str]:
    """Wraps paragraphs to lines of at most ``width`` and at most ``MAX_LINE_WIDTH``."""
    wrapper = TextWrapper(
        min(width, MAX_LINE_WIDTH), initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
    return [line for text in paragraphs for line in wrapper.wrap(text)]


def explain_missing_plan(first: Candidate) -> Phrase:
    """Returns the reason why there is no plan of the requested kind, and the best other candidate, ``first``."""
    if first.goal.rests_on == NOISE:
        return phrase(
            "in no mechanism that meets the target does the shuffler draw the noise; leave out {rests_on} to get "
            "{name}.",
            rests_on=Argument("rests_on", repr(NOISE)),
            name=first.name,
        )
    if first.has_local_epsilon:
        return phrase(
            "every mechanism that meets the target has a local ε, and none rests on the shuffler alone; leave out "
            "{rests_on} to get {name}.",
            name=first.name,
        )
    return phrase(
        "no mechanism that meets the target has a local ε even against the shuffler; get {name}, which rests on the "
        "shuffler alone, by {rests_on}.",
        name=first.name,
        rests_on=Argument("rests_on", repr(SHUFFLER)),
    )


def _describe_local_winner(goal: Goal, local: Candidate | None, by_shuffler: Candidate | None) -> str:
    if local is not None:
        ending = "; this is the plan." if goal.rests_on == LOCAL else "."
        return (
            f"{WINNER_MARK} {local.name} is the best with a local ε even against the shuffler: "
            f"{_describe_error(local)}{ending}"
        )
    if by_shuffler is None or goal.rests_on != LOCAL:
        return "No mechanism has a local ε."
    return f"No plan: {explain_missing_plan(by_shuffler).write(write_option)}"


def _describe_shuffler_winner(goal: Goal, local: Candidate | None, by_shuffler: Candidate | None) -> str:
    if by_shuffler is not None:
        return (
            f"{WINNER_MARK} {by_shuffler.name} is the best that rests on the shuffler alone: "
            f"{_describe_error(by_shuffler)}. Its messages reveal the true value to anyone who links them to their "
            f"sender; {_describe_choice(goal, SHUFFLER)}."
        )
    if goal.rests_on != SHUFFLER or local is None:
        return "No mechanism rests on the shuffler alone."
    return f"No plan: {explain_missing_plan(local).write(write_option)}"


def _describe_noise_winner(goal: Goal, by_noise: Candidate) -> str:
    independent = by_noise.mechanism.message_plan.is_participation_independent
    users = "the number of users who take part or collude"
    dependence = f", but not on {users}" if independent else " and on the number of users who take part"
    return (
        f"{by_noise.name}: if the shuffler draws the noise, every user sends {format_average(by_noise.messages)} "
        f"{'message' if by_noise.messages == 1 else 'messages'}. The guarantee depends on the shuffler, which must "
        f"draw the noise and keep it secret{dependence}; {_describe_choice(goal, NOISE)}."
    )


def _describe_choice(goal: Goal, rests_on: str) -> str:
    return "this is the plan" if goal.rests_on == rests_on else f"choose it by --rests-on {rests_on}"


def _describe_question_errors(winner: Candidate) -> str:
    """Returns the mechanism of each question of a survey, and its error in its own unit."""
    questions = (
        f"{one.name} by {one.mechanism}, error {one.standard_error:.4g} {one.unit}, {one.times_curator:.3g} times that "
        f"of a curator who asks only this question"
        for one in winner.question_errors
    )
    return f"{winner.name}: {'; '.join(questions)}."


def _describe_reduced_turnout(goal: Goal, name: str, fewer: Sequence[TurnoutGuarantee]) -> str:
    """Returns the guarantees of a winner if fewer users take part."""
    cases = " and ".join(f"{each.text} with {each.users:,} users ({each.share})" for each in fewer)
    ending = "; --minimum plans for this case." if goal.minimum is None else "."
    return f"If fewer users take part, {name} guarantees, at δ = {format_exact(goal.target.delta)}, {cases}{ending}"


def _describe_sampling(goal: Goal, known: Mapping[str, float]) -> list[str]:
    """Returns the condition of the guarantee if users are drawn, and the guarantees of the winners without it."""
    if not goal.participation.is_sampled:
        return []
    others = " and ".join(f"{name} guarantees {format_epsilon_equation(epsilon, 4)}" for name, epsilon in known.items())
    return [f"Drawn: {goal.participation.describe()}. The target {SAMPLING_SECRECY_CONDITION}; otherwise {others}."]


def _describe_error(candidate: Candidate) -> str:
    return f"error {candidate.standard_error:.4g}, {candidate.curator_error_ratio:.3g} times the curator's"


def align_table(rows: list[list[str]], width: float = math.inf) -> list[str]:
    """Returns the table as lines of plain text that fit a terminal of this width if possible."""
    lines: list[str] = []
    for gap, names in TABLE_LAYOUTS:
        columns = [HEADINGS.index(name) for name in names]
        lines = _align_columns([[row[column] for column in columns] for row in (HEADINGS, *rows)], gap)
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


def _format_ratio(candidate: Candidate) -> str:
    """Formats the ratio to the curator's error with three digits."""
    times = candidate.curator_error_ratio
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
