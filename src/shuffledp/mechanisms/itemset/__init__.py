"""Users who hold sets of options."""
