"""Empirical audits: what samples of a randomizer prove about its privacy loss."""
