"""Tests of shuffledp.statement."""
