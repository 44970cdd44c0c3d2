"""Tests of shuffledp."""
