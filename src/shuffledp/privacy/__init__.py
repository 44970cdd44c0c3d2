"""Privacy parameters, dominating pairs, privacy curves and trade-off curves, as frozen value objects."""
