"""Which mechanisms give a proposal law and have a table, and small instances of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shuffledp import Duchi, Laplace, Parallel, Repeated
from shuffledp.mechanisms.base import Mechanism, OutputTable
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.sampling.random_sources import SeededSource
from tests.mechanisms.toy_mechanisms import ToyCircle

WITH_PROPOSAL = (
    "krr",
    "rappor",
    "oue",
    "subset",
    "privset",
    "local-hash",
    "hadamard-response",
    "pi-rappor",
    "projective-geometry",
    "table",
    "density",
    "exponential",
    "padded-exponential",
    "planar-laplace",
    "laplace",
    "duchi",
    "parallel",
)
EXTRA_EXAMPLES: dict[str, Mechanism] = {
    "circle": ToyCircle(1.0),
    "repeated-circle": Repeated(ToyCircle(1.0), 2),
    "parallel-drawn": Parallel([Duchi(1.0, 2), Repeated(ToyCircle(0.5), 2), Laplace(1.5, grid=3)], [2, 1, 3]),
}
PARALLEL_REPETITIONS = 40


def examples() -> Iterator[tuple[str, Mechanism]]:
    """All of them, each with a name of its own."""
    for name in WITH_PROPOSAL:
        for number, example in enumerate(all_mechanisms()[name].examples()):
            yield f"{name}-{number}", example
    yield from EXTRA_EXAMPLES.items()


def pure_table(mechanism: Mechanism) -> OutputTable:
    """The laws of inputs for which nothing is drawn before seeds are tried, of all messages that are ever sent."""
    table, reference = mechanism.table(), mechanism.proposal
    assert reference is not None
    source = SeededSource(np.random.default_rng(1))
    drawn = [reference.draw_latent_inputs(table.inputs, source) for _ in range(PARALLEL_REPETITIONS)]
    pure = [place for place in range(len(table.inputs)) if all((one[place] == drawn[0][place]).all() for one in drawn)]
    sent = [place for place, column in enumerate(zip(*table.probabilities, strict=True)) if any(column)]
    rows = tuple(tuple(table.probabilities[place][column] for column in sent) for place in pure)
    return OutputTable(table.inputs[pure], table.messages[sent], rows)
