"""Tests of shuffledp.calibration."""
