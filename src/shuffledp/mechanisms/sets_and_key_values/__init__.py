"""Mechanisms for users who hold a set of options, or options with values."""
