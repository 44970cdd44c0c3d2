"""Exceptions of the package, and the hint shown when an optional dependency is missing."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """Returns the instruction that installs an extra from the source folder; the package is in no registry."""
    return f"in the folder of shuffledp's source run pip install '.[{extra}]'"


class ShuffledpError(Exception):
    """Base class of the package's own errors, other than plain argument errors (``ValueError``, ``TypeError``)."""


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
