"""Slow, independent oracles: exact fractions and high precision, straight from the definitions.

Nothing here may import the package under test.
"""
