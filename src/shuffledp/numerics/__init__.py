"""Floats, balls and arrays: the numerical engine. Knows no privacy nouns."""
