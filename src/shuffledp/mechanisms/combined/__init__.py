"""Mechanisms built from other mechanisms."""
