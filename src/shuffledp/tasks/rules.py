"""Public rules by which cells become users' values: the same for every row, whatever stands in the others."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

REFUSE, DROP, CATEGORY, EMPTY, SAMPLE = "refuse", "drop", "category", "empty", "sample"
MISSING = (REFUSE, DROP, CATEGORY, EMPTY)
"""What may be done with a row without a value."""
LONGER = (REFUSE, SAMPLE)
"""What may be done with a list of more entries than are planned for."""
NO_VALUE = "(missing)"
"""The category of those who have no value."""
SEPARATOR = ";"
WHO = "input"


@dataclass(frozen=True)
class Rules:
    """How cells are read; without any, a cell that is not as planned stops the collection.

    ``missing``: what becomes of a row without a value: "refuse" stops; "drop" leaves it out, and then how many have a
    value is not hidden; "category" takes it as the category "(missing)", which the plan must have; "empty" as a list
    without entries. ``gaps``: texts that stand for no value, besides an empty cell. ``clip``: whether numbers beyond
    the plan's interval are moved to its ends. ``separator``: what stands between the entries of a list in one cell of
    text. ``longer``: what becomes of a list of more entries than planned: "refuse", or "sample", by which as many are
    drawn at random, on the user's side.

    >>> import shuffledp as sdp
    >>> sdp.tasks.Rules(missing="drop", clip=True).words()
    ['Rows without a value were left out: who has one is not hidden.', 'Numbers beyond the interval were moved to \
its ends: estimates are of the moved numbers.']
    """

    missing: str = REFUSE
    gaps: tuple[str, ...] = ()
    clip: bool = False
    separator: str = SEPARATOR
    longer: str = REFUSE

    def __post_init__(self) -> None:
        _one_of("missing", self.missing, MISSING)
        _one_of("longer", self.longer, LONGER)
        if isinstance(self.gaps, str) or not all(isinstance(text, str) for text in self.gaps):
            raise TypeError(f"{WHO}: gaps must be a list of texts, got {self.gaps!r}.")
        object.__setattr__(self, "gaps", tuple(self.gaps))
        if not isinstance(self.clip, bool):
            raise TypeError(f"{WHO}: clip must be true or false, got {self.clip!r}.")
        if not isinstance(self.separator, str) or not self.separator.strip(" "):
            raise ValueError(f"{WHO}: separator must be a text such as ';', got {self.separator!r}.")

    @property
    def drops(self) -> bool:
        """Whether rows are left out."""
        return self.missing == DROP

    @property
    def changes(self) -> bool:
        """Whether values may become others, so that it is worth counting how many do."""
        return self.clip or self.longer == SAMPLE

    def words(self) -> list[str]:
        """What every reader of a report must know, a sentence each."""
        found = []
        if self.drops:
            found.append("Rows without a value were left out: who has one is not hidden.")
        if self.clip:
            found.append("Numbers beyond the interval were moved to its ends: estimates are of the moved numbers.")
        if self.longer == SAMPLE:
            found.append(
                "Of lists that are too long as many entries as planned were drawn at random: estimates are of those."
            )
        return found

    def document(self) -> dict[str, Any]:
        """For JSON: what is not as ever."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in told.items()
            if value != getattr(STRICT, name)
        }


def _one_of(name: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ValueError(f"{WHO}: {name} must be one of {', '.join(known)}, got {given!r}.")


STRICT = Rules()
"""Nothing is changed or left out."""
