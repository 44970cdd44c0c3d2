"""What is estimated from whom: one file a task, with everything about it."""

from shuffledp.tasks.count import Count as Count
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
from shuffledp.tasks.frequency import Frequency as Frequency
from shuffledp.tasks.heavy_hitters import HeavyHitters as HeavyHitters
from shuffledp.tasks.hitters_at_once import HittersAtOnce as HittersAtOnce
from shuffledp.tasks.itemsets import ItemSets as ItemSets
from shuffledp.tasks.key_value import KeyValue as KeyValue
from shuffledp.tasks.location import Location as Location
from shuffledp.tasks.marginals import Marginals as Marginals
from shuffledp.tasks.mean import Mean as Mean
from shuffledp.tasks.over_time import OverTime as OverTime
from shuffledp.tasks.question import Quantile as Quantile, RangeCount as RangeCount
from shuffledp.tasks.ranges import Ranges as Ranges
from shuffledp.tasks.rules import Rules as Rules
from shuffledp.tasks.sum import Sum as Sum
from shuffledp.tasks.survey import Question as Question, Survey as Survey
from shuffledp.tasks.task import Needs as Needs, Task as Task
from shuffledp.tasks.task_list import TASKS as TASKS
from shuffledp.tasks.variance import Variance as Variance
from shuffledp.tasks.vector_mean import UnitVectorMean as UnitVectorMean, VectorMean as VectorMean
