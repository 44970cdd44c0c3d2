"""Metric privacy: near inputs are better hidden from each other than far ones."""
