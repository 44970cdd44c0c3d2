"""Empirical audits: lower bounds on a randomizer's local ε that samples of its messages prove."""
