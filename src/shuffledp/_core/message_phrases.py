"""Phrases that refer to arguments, which each interface writes in its own way.

Python and the command line name arguments differently: ``resume=True`` is ``--resume``. A message that names one is a
``Phrase``, and the interface that shows the message writes the names. ``str()`` of a phrase is Python's wording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from string import Formatter
from typing import Any, NamedTuple


class Argument(NamedTuple):
    """A reference to an argument of a Python function.

    >>> str(Argument("users")), str(Argument("resume", "True"))
    ('users', 'resume=True')
    """

    name: str
    value: str = ""
    """The value to pass, as Python writes it; "…" for any value."""
    command_line: str = ""
    """The argument as the command line writes it, if not as an option of this name."""

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name


ArgumentWriter = Callable[[Argument], str]
"""Returns a reference to an argument as one interface writes it."""


@dataclass(frozen=True)
class Phrase:
    """Words with references to arguments; ``str()`` writes them for Python."""

    parts: tuple[str | Argument, ...]

    def __str__(self) -> str:
        return self.write(str)

    def write(self, writer: ArgumentWriter) -> str:
        """Returns the words, with references as ``writer`` writes them."""
        return "".join(writer(part) if isinstance(part, Argument) else part for part in self.parts)

    def without_period(self) -> Phrase:
        """Returns the phrase without its final period, to continue the sentence."""
        *before, last = self.parts
        return Phrase((*before, last if isinstance(last, Argument) else last.rstrip(".")))


def phrase(template: str, **values: Any) -> Phrase:
    """Builds a phrase from its words.

    Args:
        template: The words. A placeholder stands for the value of its name; without one, it refers to an argument.
        **values: Phrases, arguments, or anything with a ``str()``.

    Returns:
        The phrase.

    >>> words = phrase("{out} holds work; continue with {resume=True}, or lower {users}", out="result")
    >>> str(words)
    'result holds work; continue with resume=True, or lower users'
    >>> words.write(lambda argument: f"--{argument.name}")
    'result holds work; continue with --resume, or lower --users'
    """
    parts: list[str | Argument] = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            word, _, passed = name.partition("=")
            value = values.get(name, Argument(word, passed))
            parts += (
                value.parts if isinstance(value, Phrase) else [value if isinstance(value, Argument) else str(value)]
            )
    return Phrase(tuple(parts))


OPTIONS = {
    "categories=…": "--categories FILE",
    "ledger=None": "--no-ledger",
    "options=[…]": "--options FILE or options=[…]",
    "round_number": "--round",
    "round_number=…": "--round",
    "rules=Rules(clip=True)": "--clip",
    "rules=Rules(longer='sample')": "--longer sample",
    "rules=Rules(missing=…)": "--missing",
    "rules=Rules(separator=…)": "--separator",
    "user=…": "user (--user)",
}
"""The references that are more than an option of the argument's name, perhaps with its value."""


def write_option(argument: Argument) -> str:
    """Returns a reference to an argument as the command line writes it.

    >>> write_option(Argument("allow_weaker", "True")), write_option(Argument("rests_on", "'shuffler'"))
    ('--allow-weaker', '--rests-on shuffler')
    """
    if argument.command_line:
        return argument.command_line
    if str(argument) in OPTIONS:
        return OPTIONS[str(argument)]
    option = f"--{argument.name.replace('_', '-')}"
    return option if argument.value in ("", "True", "…") else f"{option} {argument.value.replace(chr(39), '')}"
