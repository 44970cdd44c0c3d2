"""Several privacy curves together: rounds, queries, a person with several values."""
