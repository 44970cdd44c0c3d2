"""Randomizers built of other randomizers."""
