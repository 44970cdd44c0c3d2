"""Claims of privacy as files, with evidence that another program can check."""
