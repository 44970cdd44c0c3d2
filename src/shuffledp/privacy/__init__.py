"""Frozen value objects of the field: parameters, dominating pairs, privacy curves."""
