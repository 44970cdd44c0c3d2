"""Means of numbers: every user holds one number."""
