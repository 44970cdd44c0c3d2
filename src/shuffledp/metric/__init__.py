"""Metric privacy in the shuffle model: amplified distances, what no bound can beat, local distances for a target."""
