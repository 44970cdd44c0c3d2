"""From a target to the setting that meets it."""
