"""Set-valued mechanisms: every user holds a set of options."""
