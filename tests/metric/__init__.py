"""Tests of metric privacy in the shuffle model."""
