"""Users who hold keys with a number each."""
