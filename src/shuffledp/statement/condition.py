"""What must be so for a guarantee of shuffled messages to hold: a list of sentences, the same in every answer."""

from __future__ import annotations

from shuffledp.bounds.schedule import Schedule
from shuffledp.privacy.randomizer import Randomizer

SHUFFLER = "The shuffler hands on neither the order of the messages nor their senders."
NEIGHBOURS = "It hides a person's value, not her taking part (neighbours replace a value)."
RANDOMNESS = "All run this randomizer, with fresh secret randomness, and send nothing else."
SECRET_SAMPLE = "Nobody learns who was drawn."
NONRESPONSE = "Whether a person who is drawn takes part depends neither on their value nor on who else was drawn."


def conditions(
    randomizer: Randomizer,
    schedule: Schedule,
    *,
    colluding: int = 0,
    per_person: int = 1,
    rows: bool = False,
    by_id: bool = False,
) -> tuple[str, ...]:
    """The conditions of a guarantee for a randomizer under a schedule.

    ``colluding``: users of all who are counted that may tell the analyst what they sent. ``per_person``: the most
    rows that one person has. ``rows``: whether it is about rows of a table, each taken as a person; ``by_id``: unless
    a column of it says whose they are.

    >>> import shuffledp as sdp
    >>> found = conditions(sdp.KRR(1.0, options=4), sdp.Schedule(1000, 5000, rounds=3), colluding=10)
    >>> for sentence in found[1:3]: print(sentence)
    At least 990 of the 1,000 users of a round are honest; up to 10 may tell what they sent.
    Nobody learns who was drawn.
    """
    return (
        SHUFFLER,
        _honest(schedule, colluding),
        *((SECRET_SAMPLE,) if schedule.is_sampled else ()),
        *((NONRESPONSE,) if schedule.came is not None else ()),
        _person(per_person, rows, by_id),
        RANDOMNESS,
        *randomizer.premises(),
        NEIGHBOURS,
        *_rounds(schedule),
    )


def _honest(schedule: Schedule, colluding: int) -> str:
    users, some = f"{schedule.taking_part:,}", " of a round" if schedule.rounds > 1 or schedule.is_sampled else ""
    if schedule.rate is not None and schedule.came is None:
        whole = f"{schedule.of:,} people flip the coin that decides whether they take part"
        return f"{whole}, up to {colluding:,} of whom may tell all they know." if colluding else f"{whole}, honestly."
    if not colluding:
        return f"All {users} users{some} are honest: none tells what she sent, none is made up."
    honest = f"{schedule.taking_part - colluding:,}"
    return f"At least {honest} of the {users} users{some} are honest; up to {colluding:,} may tell what they sent."


def _person(per_person: int, rows: bool, by_id: bool) -> str:
    if by_id:
        most = "" if per_person == 1 else f", of whom at most {per_person:,} rows are used"
        return f"Each id of the users' column is another person{most}."
    if per_person > 1:
        return f"No person has more than {per_person:,} rows."
    return "Each row is another person." if rows else "Each person takes part once in a round."


def _rounds(schedule: Schedule) -> tuple[str, ...]:
    if schedule.rounds == 1:
        return ("Nothing else is released about the same people: guarantees add up.",)
    return (f"Nothing but these {schedule.rounds:,} rounds is released about the same people: guarantees add up.",)
