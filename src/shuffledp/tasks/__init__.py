"""What is estimated from whom: one file a task, with everything about it."""

from shuffledp.tasks.count import Count as Count
from shuffledp.tasks.domain import (
    Area as Area,
    Categories as Categories,
    Interval as Interval,
    KeyedInterval as KeyedInterval,
    Options as Options,
    Values as Values,
)
from shuffledp.tasks.frequency import Frequency as Frequency
from shuffledp.tasks.itemsets import ItemSets as ItemSets
from shuffledp.tasks.key_value import KeyValue as KeyValue
from shuffledp.tasks.location import Location as Location
from shuffledp.tasks.mean import Mean as Mean
from shuffledp.tasks.over_time import OverTime as OverTime
from shuffledp.tasks.question import Quantile as Quantile, RangeCount as RangeCount
from shuffledp.tasks.ranges import Ranges as Ranges
from shuffledp.tasks.sum import Sum as Sum
from shuffledp.tasks.task import Task as Task
from shuffledp.tasks.task_list import TASKS as TASKS
from shuffledp.tasks.variance import Variance as Variance
from shuffledp.tasks.vector_mean import UnitVectorMean as UnitVectorMean, VectorMean as VectorMean
