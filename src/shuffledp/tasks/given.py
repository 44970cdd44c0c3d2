"""The options of the command line that tell a task, as typed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from shuffledp import argument
from shuffledp.tasks.domain import WHO, Categories, Interval, Options, Values


@dataclass(frozen=True)
class Given:
    """The options as typed; None where not given."""

    domain: float | None = None
    categories: Path | None = None
    items: float | None = None
    low: float | None = None
    high: float | None = None
    dimension: float | None = None
    west: float | None = None
    east: float | None = None
    south: float | None = None
    north: float | None = None
    columns: float | None = None
    degrees: bool | None = None

    def beyond(self, taken: tuple[str, ...]) -> list[str]:
        """The options that were given though they are not taken."""
        return [field.name for field in fields(self) if field.name not in taken and getattr(self, field.name)]

    def options(self) -> Values:
        """The options, by name or by number."""
        if self.categories is not None:
            if self.domain is not None:
                raise ValueError(f"{WHO}: give either --domain or --categories, not both.")
            return Categories(_lines(self.categories))
        return Options(argument.count(WHO, "domain", self.need("domain", " or --categories FILE"), at_least=2))

    def interval(self) -> Interval:
        return Interval(self.need("low"), self.need("high"))

    def count(self, name: str) -> int:
        """An option that is a whole number."""
        return argument.count(WHO, name, self.need(name))

    def need(self, name: str, otherwise: str = "") -> float:
        """A number that must be given."""
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{WHO}: this task needs --{name}{otherwise}.")
        number: float = value
        return number


def _lines(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{WHO}: cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{WHO}: {path} is not text.") from None
    return tuple(line for line in text.splitlines() if line.strip())
