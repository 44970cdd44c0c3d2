"""Exceptions of the package, and what to say where an extra is missing.

Each message is one sentence: who expected what, got what, what to do.
"""

from __future__ import annotations


def installing(extra: str) -> str:
    """How to add an extra of the package, which no registry has: from its own folder."""
    return f"in the folder of shuffledp's source run pip install '.[{extra}]'"


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
