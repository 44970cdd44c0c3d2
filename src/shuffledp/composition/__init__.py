"""Several rounds, sampled users and other accountants: curves made of curves."""
