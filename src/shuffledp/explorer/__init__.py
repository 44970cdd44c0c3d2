"""The explorer: a web page on this machine that computes bounds and plans."""
