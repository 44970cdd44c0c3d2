"""Tests of the benchmarks: what they compare with must itself be right."""
