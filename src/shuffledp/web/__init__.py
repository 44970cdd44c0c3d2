"""The explorer: a page on this machine that asks the commands, and the JSON interface that it asks them by."""
