"""Tests of shuffledp.testing: the suites pass what is good and fail what is broken, each for the right reason."""
