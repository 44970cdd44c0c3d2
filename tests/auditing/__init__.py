"""Tests of the empirical audit."""
