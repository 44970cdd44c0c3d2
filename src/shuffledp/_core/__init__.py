"""Errors, validation, text and figures, used by all other packages; and the version."""

__version__ = "0.2.0"
