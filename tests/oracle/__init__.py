"""Slow, independent oracles: exact fractions and high precision, straight from the definitions.

Nothing here may import what it is to check. ``exact`` and ``reports`` are those that the package offers to everybody,
in ``shuffledp.testing``; they import nothing of the package either.
"""
