"""Metric privacy in the shuffle model: amplified distances, lower bounds, and the largest local distances for a target."""
