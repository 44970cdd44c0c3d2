"""A guarantee told to people: one plain sentence, the definition, the theorem with its source, and its conditions."""
