"""What a collection reads: files or data in memory, the same rows for every engine, and whose rows they are."""
