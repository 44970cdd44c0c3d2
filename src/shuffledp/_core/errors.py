"""Exceptions of the package, and the hint shown when an extra is missing; ``str()`` is Python's wording."""

from __future__ import annotations

from shuffledp._core.message_phrases import Argument, Phrase, phrase


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


def error_phrase(error: BaseException) -> Phrase:
    """Returns the message of any exception, with its references to arguments."""
    if isinstance(error, InvalidArgument):
        return error.message
    message = error.args[0] if error.args else None
    return message if isinstance(message, Phrase) else Phrase((str(error),))
