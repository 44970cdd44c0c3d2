"""Frequency oracles: estimates of how many users hold each option."""
