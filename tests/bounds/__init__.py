"""Tests of shuffledp.bounds."""
