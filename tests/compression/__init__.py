"""Tests of shuffledp.compression."""
