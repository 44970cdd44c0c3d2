"""Tests of shuffledp.tasks."""
