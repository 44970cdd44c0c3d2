"""Randomizers that users bring along: as a table, as a density."""
