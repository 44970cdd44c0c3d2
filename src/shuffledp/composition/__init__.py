"""Several rounds or queries together, sampled users, and the settings that keep them within a budget."""
