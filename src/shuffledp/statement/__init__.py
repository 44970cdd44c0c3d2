"""Privacy statements: a guarantee in plain words, formally and by its theorem, with its conditions."""
