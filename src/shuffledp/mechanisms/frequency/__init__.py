"""Frequency oracles: how many users hold each option."""
