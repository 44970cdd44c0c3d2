"""Means of one number a user."""
