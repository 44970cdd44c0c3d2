"""Tests of shuffledp.tradeoff."""
