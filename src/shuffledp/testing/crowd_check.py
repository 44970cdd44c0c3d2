"""Whether what is said of all other users holds: every pair of inputs and every third one of the table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from shuffledp.array import Floats
from shuffledp.testing.case import Case, with_table
from shuffledp.testing.check import EXACT, ROUNDED, Check, checks
from shuffledp.testing.convex_order import Gain, law_of, law_of_pair

RATIOS = Fraction(21, 20), Fraction(3, 2)
MOST_INPUTS, MOST_PAIRS = 12, 16
"""How many inputs of a table, and pairs of them, are looked at."""
CLOSE = 1e-9
Each = TypeVar("Each")
FloatLaw = tuple[Floats, Floats]
"""Values and their chances."""


def needs_others(case: Case) -> str:
    """Only where the law says what all others may send."""
    return with_table(case) or ("" if case.mechanism.others() else "its law does not say what all others may send")


@checks(
    "others() leave out what some other user may send",
    "the bound all-crowds may be below the truth",
    certainty=ROUNDED,
    why_not=needs_others,
)
def every_other_user_is_covered(case: Case) -> Iterator[str]:
    """For every pair, with every third input, G is below a mixture of the kinds of one family in convex order."""
    rows, families = _some(case.rows, MOST_INPUTS), list(case.mechanism.others())
    families += [one.swapped() for one in families if not one.symmetric]
    for ratio in RATIOS:
        kinds = [[_floats(law_of_pair(kind, ratio)) for kind in one.kinds] for one in families]
        # Inputs that are alike have the same few laws: each is compared once.
        known: dict[tuple[int, bytes], bool] = {}

        def is_covered(law: FloatLaw, family: int, kinds: Any = kinds, known: Any = known) -> bool:
            key = family, np.concatenate(law).tobytes()
            if key not in known:
                known[key] = is_below_a_mixture(law, kinds[family])
            return bool(known[key])

        for a, b in _some(list(itertools.permutations(range(len(rows)), 2)), MOST_PAIRS):
            laws = [_floats(law_of(rows[a], rows[b], third, ratio)) for third in rows]
            tells = max(values.max() for values, _ in laws) > 0
            if tells and not any(all(is_covered(law, one) for law in laws) for one in range(len(kinds))):
                yield f"at e^ε = {ratio}, inputs {a} and {b} of those looked at are not covered"


@checks(
    "others() state a larger common part than there is",
    "the bound all-crowds may be below the truth",
    certainty=EXACT,
    why_not=needs_others,
)
def the_common_part_is_common(case: Case) -> Iterator[str]:
    """γ is at most the sum of the least probabilities of each message."""
    common = sum((min(column) for column in zip(*case.rows, strict=True)), Fraction(0))
    stated = max(one.gamma for one in case.mechanism.others())
    if stated > common:
        yield f"it is {stated:.12g}, and all rows have {float(common):.12g} in common"


def is_below_a_mixture(law: FloatLaw, kinds: Sequence[FloatLaw]) -> bool:
    """Whether some weights on the kinds make E(G − t)_+ nowhere smaller than the law's: a linear program."""
    # Loaded where it is needed: most do without.
    from scipy.optimize import linprog

    levels = np.unique(np.concatenate([values for values, _ in (law, *kinds)]))
    wanted, above = _excess(law, levels), np.array([_excess(kind, levels) for kind in kinds]).T
    if (above >= wanted[:, None] - CLOSE).all(axis=0).any():
        return True
    found = linprog(
        -np.eye(len(kinds) + 1)[-1],
        A_ub=np.hstack([-above, np.ones((len(levels), 1))]),
        b_ub=-wanted,
        A_eq=[[1.0] * len(kinds) + [0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * len(kinds) + [(None, 1.0)],
    )
    return bool(found.status == 0 and found.x[-1] > -CLOSE)


def _floats(law: Gain) -> FloatLaw:
    values = sorted(law)
    return np.array([float(value) for value in values]), np.array([float(law[value]) for value in values])


def _excess(law: FloatLaw, levels: Floats) -> Floats:
    """E(G − t)_+ at each level t."""
    values, chances = law
    return np.asarray(np.maximum(values[None, :] - levels[:, None], 0.0) @ chances)


def _some(many: Sequence[Each], most: int) -> list[Each]:
    """Evenly chosen ones."""
    return list(many[:: max(1, -(-len(many) // most))])


CROWD_CHECKS: tuple[Check[Case], ...] = (every_other_user_is_covered, the_common_part_is_common)
