"""Tests of shuffledp.privacy."""
