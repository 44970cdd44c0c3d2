"""The ledger of privacy budgets, and the guarantee of the collections that it records."""
