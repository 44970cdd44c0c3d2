"""Means of vectors: every user holds one vector."""
