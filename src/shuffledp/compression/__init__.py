"""Wrappers that turn a randomizer into one with shorter messages."""
