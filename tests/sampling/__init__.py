"""Tests of shuffledp.sampling."""
