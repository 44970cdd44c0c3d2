"""Tests of composition and calibration."""
