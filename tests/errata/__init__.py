"""Executable counter-examples, one for each entry of docs/errata.md. Nothing here uses the package."""
