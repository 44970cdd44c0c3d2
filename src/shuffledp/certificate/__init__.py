"""Certificates: a privacy claim as a file, and its second proof, which asks the engine for nothing."""
