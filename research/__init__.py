"""Research code of a checkout, outside the installed package."""
