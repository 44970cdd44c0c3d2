"""What is estimated from whom: one file a task, with everything about it."""

from shuffledp.tasks.domain import Area as Area
from shuffledp.tasks.domain import Categories as Categories
from shuffledp.tasks.domain import Interval as Interval
from shuffledp.tasks.domain import KeyedInterval as KeyedInterval
from shuffledp.tasks.domain import Options as Options
from shuffledp.tasks.domain import Values as Values
from shuffledp.tasks.frequency import Frequency as Frequency
from shuffledp.tasks.itemsets import ItemSets as ItemSets
from shuffledp.tasks.key_value import KeyValue as KeyValue
from shuffledp.tasks.location import Location as Location
from shuffledp.tasks.mean import Mean as Mean
from shuffledp.tasks.range_queries import Ranges as Ranges
from shuffledp.tasks.register import TASKS as TASKS
from shuffledp.tasks.task import Task as Task
from shuffledp.tasks.vector_mean import UnitVectorMean as UnitVectorMean
from shuffledp.tasks.vector_mean import VectorMean as VectorMean
