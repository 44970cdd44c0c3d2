"""Several queries or rounds together, and the settings that keep them within a budget."""
