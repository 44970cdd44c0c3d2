"""Tests of shuffledp.numerics."""
