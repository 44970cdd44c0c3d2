"""How many users say yes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shuffledp.array import Array, Floats
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.tasks import cell
from shuffledp.tasks.adjustment import CONSISTENT, NON_NEGATIVE
from shuffledp.tasks.column import Column
from shuffledp.tasks.domain import TASK, Interval, Values
from shuffledp.tasks.given import Given
from shuffledp.tasks.mean import Mean
from shuffledp.tasks.quantity import Quantity
from shuffledp.tasks.shape import counted
from shuffledp.tasks.sum import Sum
from shuffledp.tasks.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

EITHER = Interval(0.0, 1.0)
WORDS = {"yes": 1, "no": 0, "true": 1, "false": 0, "1": 1, "0": 0}
"""What a text may say, in small letters."""


class Count(Sum):
    """How many users say yes: the sum of ones, where no is 0.

    A column holds truth values, the numbers 0 and 1, or the texts yes, no, true, false.

    >>> Count().sensitivity(users=1000).sum
    1.0
    """

    name = "count"
    data = "half of the users say yes"
    unit = "users"
    taken: ClassVar[tuple[str, ...]] = ()
    post: ClassVar[tuple[str, ...]] = (NON_NEGATIVE, CONSISTENT)

    def __init__(self) -> None:
        super().__init__(EITHER)

    def sample(self, mechanism: Mechanism) -> Array:
        ends = np.array(mechanism.value_range)
        return ends if mechanism.task == Mean.name else ends[:, None]

    def values(self, column: Column, array: pa.Array) -> Any:
        import pyarrow as pa

        return super().values(column, pa.array(self._ones(column, array), pa.int8()))

    def _ones(self, column: Column, array: pa.Array) -> Array:
        """1 for yes and 0 for no; a sentence if a row is neither."""
        import pyarrow.compute as pc

        array = cell.plain(column.without_nulls(array))
        if cell.is_text(array.type):
            places, bad = cell.places(pc.utf8_lower(cell.trimmed(array)), tuple(WORDS))
            found = np.array(list(WORDS.values()))[places]
        elif cell.is_numeric(array):
            found, bad = cell.floats(array)
            bad = bad | ~np.isin(found, (0.0, 1.0))
        else:
            raise column.refuse(f"expected yes or no in every row, got {array.type}")
        if bad.any():
            rows = f"{int(bad.sum()):,} rows"
            raise column.refuse(f"expected yes, no, true, false, 1 or 0, got something else in {rows}", bad)
        return found.astype(np.int8)

    def compare(
        self, mechanism: Mechanism, estimate: Estimate, held: Floats, confidence: float
    ) -> tuple[Floats, Floats]:
        return super().compare(mechanism, mechanism.reading.of_ends(estimate), held, confidence)

    def quantities(self, mechanism: Mechanism, estimate: Estimate, confidence: float) -> list[Quantity]:
        (total,) = super().quantities(mechanism, mechanism.reading.of_ends(estimate), confidence)
        shape = counted(estimate.users, all_in_one=False)
        return [Quantity("users", ("yes",), total.value, total.standard_error, total.low, total.high, shape=shape)]

    @classmethod
    def read(cls, domain: Values, parameters: Mapping[str, Any]) -> Task:
        del parameters
        if domain != EITHER:
            raise ValueError(f"{TASK}: the task 'count' has the domain 0 to 1, got another.")
        return cls()

    @classmethod
    def from_options(cls, given: Given) -> Task:
        del given
        return cls()
