"""Exceptions of the package, phrases that refer to arguments, and the hint shown when an extra is missing.

Python and the command line name arguments differently: ``resume=True`` is ``--resume``. A message that names one is a
``Phrase``, and the interface that shows the message writes the names. ``str()`` of every exception is Python's wording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from string import Formatter
from typing import Any, NamedTuple

# --- Phrases ---


class Argument(NamedTuple):
    """A reference to an argument of a Python function.

    >>> str(Argument("users")), str(Argument("resume", "True"))
    ('users', 'resume=True')
    """

    name: str
    value: str = ""
    """What to pass, as Python writes it; "…" for any value."""
    command_line: str = ""
    """How the command line writes the argument, if not as an option of this name."""

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


def error_phrase(error: BaseException) -> Phrase:
    """Returns the message of any exception, with its references to arguments."""
    if isinstance(error, InvalidArgument):
        return error.message
    message = error.args[0] if error.args else None
    return message if isinstance(message, Phrase) else Phrase((str(error),))


# --- Exceptions ---


def install_hint(extra: str) -> str:
    """Returns the instruction that installs an extra from the source folder; the package is in no registry."""
    return f"in the folder of shuffledp's source run pip install '.[{extra}]'"


class ShuffledpError(Exception):
    """Base class of the package's own errors, other than plain argument errors (``ValueError``, ``TypeError``)."""


class InvalidArgument(ShuffledpError, ValueError):
    """The error raised for an argument that does not fit, or does not go with the others.

    Its message is "caller: parameter expected, got …; hint."

    Args:
        caller: Function, class or command that was called.
        expected: The violated expectation; after a parameter without its subject.
        got: The given value, for a message.
        hint: What to do.
        parameter: The argument; a text if all interfaces write it alike.
    """

    def __init__(
        self,
        caller: str,
        expected: str | Phrase,
        *,
        got: str | None = None,
        hint: str | Phrase | None = None,
        parameter: str | Argument | None = None,
    ) -> None:
        super().__init__(caller, expected)
        self.caller = caller
        self.expected = expected
        self.got = got
        self.hint = hint
        self.parameter = parameter

    @property
    def message(self) -> Phrase:
        """The message, with its references to arguments."""
        template = "{caller}: "
        template += "" if self.parameter is None else "{parameter} "
        template += "{expected}"
        template += "" if self.got is None else ", got {got}"
        template += "" if self.hint is None else "; {hint}"
        return phrase(f"{template}.", **vars(self))

    def __str__(self) -> str:
        return str(self.message)


class NotApplicable(ShuffledpError, ValueError):
    """The error raised when a theorem's hypothesis fails; the message names the failing inequality.

    Args:
        bound: Name of the bound or theorem that does not apply.
        reason: The failing inequality with its numbers.
    """

    def __init__(self, bound: str, reason: str) -> None:
        super().__init__(f"{bound}: {reason}")
        self.bound = bound
        self.reason = reason


class GuaranteeTooWeak(ShuffledpError):
    """The error raised when a collection would give a weaker guarantee than planned, or than the budget allows.

    Nothing was released.
    """


class NumericalError(ShuffledpError, ArithmeticError):
    """The error raised when a certified value could not be computed at any reasonable precision."""
