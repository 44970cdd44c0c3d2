"""Mechanisms from a table, a density or a class of the caller."""
