"""Mechanisms that are a table of probabilities and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shuffledp.array import Array
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.table_law import CutTable, TableLaw
from shuffledp.mechanisms.parts.table_reading import TableReading
from shuffledp.mechanisms.parts.table_reference import TableReference
from shuffledp.mechanisms.parts.tailed_reference import TailedReference
from shuffledp.mechanisms.parts.unit_table import UnitTable
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.privacy.randomizer import HasTails
from shuffledp.sampling.random import RandomSource


@dataclass(frozen=True)
class TableRow(OneOption):
    """The number of a row; ``ends`` are two rows that are hard to hide from each other."""

    ends: tuple[int, int]

    def probe(self) -> Array:
        return np.array(self.ends)


class Tabulated(Mechanism, HasTails):
    """Draw the output from the input's row of the table ``executed``.

    A base and not only parts, because here the table is the mechanism: values, law, wire, reading and sampler all
    follow from it and would be the same twenty lines in every file. What a subclass brings is where its table comes
    from. It compares by the table, and by what it names in ``_origin``.
    """

    task = "frequency"
    built_from_numbers = False
    tuning: ClassVar[tuple[Tuning, ...]] = ()
    executed: UnitTable
    """The table that is run, and that all numbers are about."""
    _asked: float | None

    def _adopt(self, table: UnitTable) -> None:
        """Make this table the one that is run; ``epsilon`` is then the table's, whatever was asked for."""
        object.__setattr__(self, "executed", table)
        object.__setattr__(self, "_asked", vars(self).get("epsilon"))
        object.__setattr__(self, "epsilon", self.law.epsilon)

    @cached_property
    def values(self) -> TableRow:
        return TableRow(type(self).__name__, self.executed.inputs, self.executed.farthest())

    @cached_property
    def law(self) -> TableLaw:
        return TableLaw(type(self).__name__, self.executed)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(type(self).__name__, self.executed.outputs)

    @cached_property
    def reading(self) -> TableReading:
        return TableReading(type(self).__name__, self.executed)

    @cached_property
    def reference(self) -> TableReference:
        finite = math.isfinite(self.law.epsilon)
        return TableReference(self.executed) if finite else TailedReference(self.executed)

    @property
    def has_tails(self) -> bool:
        return self.law.has_tails

    def without_tails(self, share: float) -> CutTable | None:
        return self.law.without_tails(share)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        return self.executed.draw(values, source)

    def table(self) -> OutputTable:
        inputs, messages = np.arange(self.executed.inputs), np.arange(self.executed.outputs)
        return OutputTable(inputs, messages, self.executed.fractions())

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments where they can be written down, else the table's size in place of itself.

        A local ε that was asked for stays what it was: built with the table's own, it would be another table.
        """
        given = super().settings()
        if self.built_from_table:
            return given | {self.built_from_table: given[self.built_from_table].tolist()}
        if all(value is None or isinstance(value, bool | int | float | str) for value in given.values()):
            return given | {"epsilon": self._asked} if "epsilon" in given else given
        return self._size()

    def _size(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "inputs": self.executed.inputs, "outputs": self.executed.outputs}

    def _origin(self) -> tuple[Any, ...]:
        """What two equal mechanisms have in common besides the table."""
        return ()

    def __repr__(self) -> str:
        told = self._size() if self.built_from_table else self.settings()
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Tabulated):
            return NotImplemented
        return (self.executed, *self._origin()) == (other.executed, *other._origin())

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.executed, *self._origin()))
