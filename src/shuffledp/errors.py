"""Exceptions of the package.

Each message is one sentence: who expected what, got what, what to do.
"""

from __future__ import annotations


class ShuffledpError(Exception):
    """Base of every error that is ours and is not plainly a bad argument."""


class NotApplicable(ShuffledpError, ValueError):
    """A theorem's hypothesis fails for these inputs; the message names the failing inequality."""

    def __init__(self, bound: str, reason: str) -> None:
        super().__init__(f"{bound}: {reason}")
        self.bound = bound
        self.reason = reason


class NumericalError(ShuffledpError, ArithmeticError):
    """A certified value could not be produced at any reasonable precision."""
