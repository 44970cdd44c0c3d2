"""f-DP: trade-off functions of false positives against false negatives, and what an attacker can do."""
