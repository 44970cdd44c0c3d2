"""A ranking as a person reads it: one row a mechanism, what the columns mean, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap

from shuffledp.bounds.schedule import CONDITION
from shuffledp.document import average_text, epsilon_is, rounded_up, typed
from shuffledp.planner.goal import LOCAL, NOISE, SHUFFLER, Goal
from shuffledp.planner.trial import Offer
from shuffledp.planner.turnout import Turnout

HEAD = (
    "mechanism", "error", "× curator", "local ε", "bits", "sealed", "msgs", "liar", "client", "server", "rests on",
)  # fmt: skip
NUMBERS = HEAD[1:-1]
"""The columns that stand to the right."""
WIDTH = 100
"""Columns of a terminal that lines are made for."""
LAYOUTS = ((2, HEAD), (1, HEAD), (1, tuple(name for name in HEAD if name not in ("client", "server"))))
"""Gaps and columns, the first that fits is shown: times are what a narrow terminal can do without."""
MARK = "*"
"""Of a winner."""


def title(goal: Goal) -> str:
    """What was asked for."""
    rounds = "" if goal.rounds == 1 else f", {goal.rounds} rounds"
    limits = f"; {goal.limits.words()}" if goal.limits.words() else ""
    target = f"ε = {typed(goal.target.epsilon)}, δ = {typed(goal.target.delta)}"
    return f"{goal.task.name}: {goal.turnout()}, {target}{rounds}{limits}"


def cells(offer: Offer, wins: bool) -> list[str]:
    """The row of one mechanism, under ``HEAD``; winners have a mark."""
    local = offer.mechanism.local_epsilon
    return [
        f"{offer.name} {MARK}" if wins else offer.name,
        f"{offer.standard_error:.4g}",
        _times(offer),
        "–" if local is None else f"{float(rounded_up(local, 3)):.3g}",
        _size(offer.bits),
        _size(offer.sealed_bits),
        average_text(offer.messages),
        _moved(offer.influence),
        _duration(offer.cost.client),
        _duration(offer.cost.server(offer.goal.users)),
        offer.rests_on,
    ]


def notes(
    offers: Sequence[Offer],
    local: Offer | None,
    by_shuffler: Offer | None,
    by_noise: Offer | None,
    fewer: Mapping[str, Sequence[Turnout]],
    known: Mapping[str, float],
) -> list[str]:
    """The winners beside a trusted curator and with fewer users, and what the columns mean; a paragraph each."""
    goal = offers[0].goal
    central, caveat = goal.yardstick, goal.task.caveat([offer.mechanism for offer in offers])
    return [
        f"A trusted curator's error ({central.noise} noise): {central.standard_error:.4g}.",
        _local_words(goal, local, by_shuffler),
        _shuffler_words(goal, local, by_shuffler),
        *([] if by_noise is None else [_noise_words(goal, by_noise)]),
        *_question_words([offer for offer in (local, by_shuffler, by_noise) if offer is not None]),
        *(_fewer_words(goal, name, found) for name, found in fewer.items() if found),
        *_drawn_words(goal, known),
        *([caveat] if caveat else []),
        f"error: the standard error in {goal.task.unit}, for {goal.task.data} (root mean square over all estimates).",
        "bits, msgs: sent by each user; sealed: bits where each message is sealed to the analyst and all of a user's "
        "to the shuffler (HPKE, X25519).",
        "liar: the most that one dishonest user can move an estimate by, in users; –: not known, ∞: there is no limit.",
        f"client: time to encode one user, server: to read all messages{goal.task.read_words}, as measured here; left "
        f"out where the terminal is narrow.",
        "rests on: the central ε always rests on a shuffler that hides who sent what; without it there is left the "
        "local ε, the same if seeds are pseudorandom, or nothing.",
    ]


def wrapped(paragraphs: list[str], width: int = WIDTH, indent: str = "") -> list[str]:
    """Paragraphs as lines of at most this width, and of at most ``WIDTH``."""
    most, below = min(width, WIDTH), f"{indent}  "
    each = (wrap(text, most, initial_indent=indent, subsequent_indent=below, break_on_hyphens=False)
            for text in paragraphs)  # fmt: skip
    return [line for lines in each for line in lines]


def missing(first: Offer) -> str:
    """Why there is no plan of the kind that was asked for, and what to ask for; ``first`` is the best of the others."""
    if first.goal.rests_on == NOISE:
        return (
            f"of no mechanism that meets the target does the shuffler draw the noise; leave --rests-on {NOISE} out to "
            f"get {first.name}."
        )
    if first.keeps_local:
        return (
            f"every mechanism that meets the target keeps a local ε, and none rests on the shuffler alone; leave "
            f"--rests-on out to get {first.name}."
        )
    return (
        f"no mechanism that meets the target keeps a local ε even from the shuffler; ask by --rests-on shuffler for "
        f"{first.name}, which rests on the shuffler alone."
    )


def _local_words(goal: Goal, local: Offer | None, by_shuffler: Offer | None) -> str:
    if local is None:
        if by_shuffler is None:
            return "None keeps a local ε."
        return f"No plan: {missing(by_shuffler)}" if goal.rests_on == LOCAL else "None keeps a local ε."
    ending = "; this is the plan." if goal.rests_on == LOCAL else "."
    return (
        f"{MARK} {local.name} is the best that keeps a local ε even from the shuffler: {_beside_curator(local)}{ending}"
    )


def _shuffler_words(goal: Goal, local: Offer | None, by_shuffler: Offer | None) -> str:
    if by_shuffler is None:
        if goal.rests_on != SHUFFLER or local is None:
            return "None rests on the shuffler alone."
        return f"No plan: {missing(local)}"
    ending = "this is the plan" if goal.rests_on == SHUFFLER else f"it must be asked for: --rests-on {SHUFFLER}"
    return (
        f"{MARK} {by_shuffler.name} is the best that rests on the shuffler alone: {_beside_curator(by_shuffler)}. Its "
        f"messages tell the true value to whoever links them to their sender; {ending}."
    )


def _noise_words(goal: Goal, by_noise: Offer) -> str:
    ending = "this is the plan" if goal.rests_on == NOISE else f"it must be asked for: --rests-on {NOISE}"
    return (
        f"{by_noise.name}: where the shuffler draws the noise, every user sends {average_text(by_noise.messages)} "
        f"{'message' if by_noise.messages == 1 else 'messages'}, and the promise {_whom(by_noise)} "
        f"on the shuffler's drawing it and keeping it secret; {ending}."
    )


def _whom(by_noise: Offer) -> str:
    if by_noise.mechanism.crowd.whoever_comes:
        return "does not depend on how many take part or collude, but"
    return "depends on how many take part, and"


def _question_words(winners: Sequence[Offer]) -> list[str]:
    """What answers each question of a survey, and its error in its own unit; a paragraph for each winner."""
    return [
        f"{offer.name}: "
        + "; ".join(
            f"{one.name} by {one.mechanism}, error {one.standard_error:.4g} {one.unit}, "
            f"{one.times_curator:.3g} times a curator's who asks only this"
            for one in offer.answers
        )
        + "."
        for offer in winners
        if offer.answers
    ]


def _fewer_words(goal: Goal, name: str, fewer: Sequence[Turnout]) -> str:
    """What a winner promises if fewer take part."""
    cases = " and ".join(f"{each.words} with {each.users:,} users ({each.share})" for each in fewer)
    ending = "; --minimum plans for that." if goal.minimum is None else "."
    return f"If fewer take part, {name} promises, at δ = {typed(goal.target.delta)}, {cases}{ending}"


def _drawn_words(goal: Goal, known: Mapping[str, float]) -> list[str]:
    """What the promise rests on where users are drawn, and what the winners promise without it."""
    if not goal.schedule.is_sampled:
        return []
    left = " and ".join(f"{name} promises {epsilon_is(epsilon, 4)}" for name, epsilon in known.items())
    return [f"Drawn: {goal.schedule.words()}. The target {CONDITION}; if it is known, {left}."]


def _beside_curator(offer: Offer) -> str:
    return f"error {offer.standard_error:.4g}, {offer.times_curator:.3g} times the curator's"


def aligned(rows: list[list[str]], width: float = math.inf) -> list[str]:
    """The head and the rows as lines of plain text, laid out so that they fit a terminal of this width if they can."""
    lines: list[str] = []
    for gap, names in LAYOUTS:
        places = [HEAD.index(name) for name in names]
        lines = _joined([[row[place] for place in places] for row in (list(HEAD), *rows)], gap)
        if max(map(len, lines)) <= width:
            break
    return lines


def _joined(table: list[list[str]], gap: int) -> list[str]:
    """Columns below each other, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        (" " * gap)
        .join(
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for cell, width, name in zip(row, widths, table[0], strict=True)
        )
        .rstrip()
        for row in table
    ]


def _times(offer: Offer) -> str:
    """How many times the curator's error, in three digits."""
    times = offer.times_curator
    return f"{times:,.0f}" if times >= 100 else f"{times:.3g}"


def _moved(users: float | None) -> str:
    """What one liar can move."""
    if users is None:
        return "–"
    return "∞" if math.isinf(users) else f"{users:,.0f}" if users >= 1000 else f"{users:.3g}"


def _size(bits: int) -> str:
    """Bits to the last one; from a hundred thousand on in three digits."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if bits >= max(size, 1e5):
            return f"{bits / size:.3g}{unit}" if bits < 999.5 * size else f"{bits / size:,.0f}{unit}"
    return f"{bits:,}"


def _duration(seconds: float) -> str:
    """One digit is all that a short measurement tells."""
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        digit = float(f"{seconds / size:.1g}")
        if digit >= 1:
            return f"{digit:g} {unit}"
    return "0"
