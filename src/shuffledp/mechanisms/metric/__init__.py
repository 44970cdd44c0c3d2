"""Metric privacy: near inputs are hidden from each other better than far ones."""
