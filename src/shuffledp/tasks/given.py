"""The options of the command line that tell a task, as typed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.tasks.domain import WHO, Categories, Interval, Options, Values


@dataclass(frozen=True)
class Given:
    """The options as typed; None where not given."""

    domain: float | None = None
    categories: Path | tuple[str, ...] | None = None
    items: float | None = None
    low: tuple[float, ...] = ()
    """One for all coordinates, or one for each."""
    high: tuple[float, ...] = ()
    dimension: float | None = None
    west: float | None = None
    east: float | None = None
    south: float | None = None
    north: float | None = None
    columns: float | None = None
    degrees: bool | None = None
    strings: float | None = None
    bits: float | None = None
    reach: float | None = None
    questions: tuple[Any, ...] | None = None
    ways: float | None = None
    labels: tuple[str, ...] = ()
    """The categories, where they were read from data."""
    called: tuple[str, ...] = ()
    """What the columns are called that are read."""

    def beyond(self, taken: tuple[str, ...]) -> list[str]:
        """The options that were given though they are not taken."""
        # What is 0 was given, too.
        given = [field.name for field in fields(self) if getattr(self, field.name) not in (None, ())]
        return [name for name in given if name not in (*taken, "labels", "called")]

    def options(self) -> Values:
        """The options, by name or by number."""
        if self.categories is not None:
            if self.domain is not None:
                raise ValueError(f"{WHO}: give either --domain or --categories, not both.")
            return Categories(self.categories if isinstance(self.categories, tuple) else lines_of(self.categories))
        if self.labels and self.domain is None:
            return Categories(self.labels)
        return Options(argument.count(WHO, "domain", self.need("domain", " or --categories FILE"), at_least=2))

    def interval(self) -> Interval:
        for name in ("low", "high"):
            if len(getattr(self, name)) > 1:
                raise ValueError(f"{WHO}: this task takes --{name} once, got it {len(getattr(self, name))} times.")
        return Interval(self.need("low"), self.need("high"))

    def count(self, name: str) -> int:
        """An option that is a whole number."""
        return argument.count(WHO, name, self.need(name))

    def whole(self, name: str) -> int | None:
        """An option that is a whole number, where it was given."""
        return None if getattr(self, name) is None else self.count(name)

    def need(self, name: str, otherwise: str = "") -> float:
        """A number that must be given."""
        value = getattr(self, name)
        if isinstance(value, tuple):
            value = value[0] if value else None
        if value is None:
            raise ValueError(f"{WHO}: this task needs --{name}{otherwise}.")
        number: float = value
        return number


def lines_of(path: Path, who: str = WHO) -> tuple[str, ...]:
    """The lines of a text file that are not empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(
            f"{who}: cannot read {path}: {error.strerror}; expected a text file with a line for each."
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{who}: {path} is not text.") from None
    return tuple(line for line in text.splitlines() if line.strip())
