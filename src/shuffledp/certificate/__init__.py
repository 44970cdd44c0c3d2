"""Certificates: a privacy claim as a file, and its proof by code that shares nothing with the engine's."""
