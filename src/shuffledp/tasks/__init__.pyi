# The public names, and the modules that define them: read by type checkers, and at run time by __init__.py.
from shuffledp.tasks.base import Needs as Needs, Task as Task
from shuffledp.tasks.counts_and_frequencies import Count as Count, Frequency as Frequency, ItemSets as ItemSets
from shuffledp.tasks.domain import (
    Area as Area,
    Categories as Categories,
    Interval as Interval,
    Intervals as Intervals,
    KeyedInterval as KeyedInterval,
    Numbers as Numbers,
    Options as Options,
    Strings as Strings,
    Values as Values,
)
from shuffledp.tasks.heavy_hitters import HeavyHitters as HeavyHitters, HittersAtOnce as HittersAtOnce
from shuffledp.tasks.key_value import KeyValue as KeyValue
from shuffledp.tasks.location import Location as Location
from shuffledp.tasks.marginals import Marginals as Marginals
from shuffledp.tasks.means import (
    Mean as Mean,
    Sum as Sum,
    UnitVectorMean as UnitVectorMean,
    Variance as Variance,
    VectorMean as VectorMean,
)
from shuffledp.tasks.ranges import Quantile as Quantile, RangeCount as RangeCount, Ranges as Ranges
from shuffledp.tasks.registry import TASKS as TASKS
from shuffledp.tasks.running_counts import OverTime as OverTime
from shuffledp.tasks.survey import Question as Question, Survey as Survey
from shuffledp.tasks.value_parsing import Rules as Rules
