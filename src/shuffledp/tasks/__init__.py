"""Tasks: statistics that are estimated from the users' values, such as frequencies, means and heavy hitters."""

from shuffledp._core import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
del attach_stub
