"""Local randomizers: one file, one frozen object that answers everything about itself."""
