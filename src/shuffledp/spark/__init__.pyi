# The public names, and the modules that define them: read by type checkers, and at run time by __init__.py.
from shuffledp.spark.collection import (
    Windows as Windows,
    collect as collect,
    encode as encode,
    estimate as estimate,
    shuffle as shuffle,
)
from shuffledp.spark.engine import Spark as Spark
