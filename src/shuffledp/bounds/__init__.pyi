# The public names, and the modules that define them: read by type checkers, and at run time by __init__.py.
from shuffledp.bounds.base import Bound as Bound
from shuffledp.bounds.registry import BOUNDS as BOUNDS, BOUNDS_BY_NAME as BOUNDS_BY_NAME
