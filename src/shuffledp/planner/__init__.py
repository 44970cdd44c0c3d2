"""From a target to a plan: the plan file, and what fills it."""
