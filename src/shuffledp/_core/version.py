"""The version, in one place: packaging reads it from here without importing the package."""

__version__ = "0.1.0"
