"""Amplification bounds: one family of theorems per file."""
