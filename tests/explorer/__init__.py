"""The explorer: its interface, its page in a real browser, and what hostile requests get."""
