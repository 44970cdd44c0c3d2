"""Means of vectors."""
