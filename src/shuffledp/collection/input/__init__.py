"""Reading the input of a collection: files or data in memory, with the same rows for every engine, grouped by user."""
