"""Base classes and shared parts of mechanisms, for the catalogue and for plug-in authors."""
