"""Planning: the mechanism and settings that meet a privacy target with the smallest error."""
