"""Random parameter sets for every bound and every mechanism: what they answer, or the sentence that they refuse with.

``python -m tests.bounds.fuzz 20000 [SEED]`` runs as many cases as one likes and prints each complaint; twenty thousand
take half an hour of one processor.
"""

from __future__ import annotations

import math
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import shuffledp as sdp
from shuffledp._core.errors import ShuffledpError
from shuffledp.bounds.amplify import bound_names
from shuffledp.mechanisms import catalogue

SEED = 2026
EXTREME = 0.01
"""How often a number is one that hardly anybody means."""
EXTREME_REALS = (0.0, -1.0, 5e-324, 1e-300, 1e-17, 1e16, 1e308, 10**400, math.inf, math.nan, 2**53 + 1)
EXTREME_INTEGERS = (0, -1, 2.5, 2**53 + 1, 1e308, 10**400, math.inf, math.nan)
EXPECTED_ERRORS = (ValueError, TypeError, ShuffledpError)


@dataclass(frozen=True)
class ParameterSampler:
    """One generator and the ranges that numbers are drawn from."""

    rng: np.random.Generator

    def log(self, low: float, high: float) -> float:
        """A number from low to high, evenly in its logarithm."""
        return math.exp(self.rng.uniform(math.log(low), math.log(high)))

    def real(self, low: float, high: float) -> Any:
        if self.rng.random() < EXTREME:
            return self.one_of(*EXTREME_REALS)
        return self.log(low, high)

    def integer(self, low: int, high: int) -> Any:
        if self.rng.random() < EXTREME:
            return self.one_of(*EXTREME_INTEGERS)
        return low - 1 + int(self.log(1, high - low + 1.999))

    def probability(self) -> Any:
        """A probability, often near 0 or near 1."""
        if self.rng.random() < EXTREME:
            return self.one_of(*EXTREME_REALS)
        near = self.log(1e-17, 0.5)
        return near if self.rng.random() < 0.5 else 1 - near

    def value_or_none(self, value: Any) -> Any:
        return value if self.rng.random() < 0.5 else None

    def one_of(self, *values: Any) -> Any:
        return values[self.rng.integers(len(values))]


def random_parameters(draw: ParameterSampler) -> dict[str, Any]:
    """(p, β, q0, q1, q_common) of a randomizer, often nearly the same at all inputs."""
    p = draw.one_of(math.inf, 1 + draw.log(1e-16, 1e15), 1 + draw.log(1e-15, 1e-9), draw.log(1.01, 100.0))
    most = 1.0 if p == math.inf else (p - 1) / (p + 1)
    beta = draw.one_of(most, most * draw.log(1e-9, 1.0), most * (1 - draw.log(1e-15, 1e-3)))
    base = 100.0 if p == math.inf else p
    wide = [base * (1 + draw.log(1e-15, 1e6)) for _ in range(3)]
    q = draw.one_of(base, wide[0], (wide[0], wide[1]))
    chosen = {"p": p, "beta": beta, "q": q, "q_common": draw.value_or_none(wide[2])}
    if draw.rng.random() < 4 * EXTREME:
        chosen[draw.one_of(*chosen)] = draw.one_of(*EXTREME_REALS)
    return chosen


def random_distances(draw: ParameterSampler) -> Any:
    points = np.array([draw.log(1e-6, 30.0) for _ in range(draw.rng.integers(2, 5))])
    return np.abs(np.subtract.outer(points, points))


def random_table(draw: ParameterSampler) -> Any:
    rows = np.array([[draw.log(1e-9, 1.0) for _ in range(draw.rng.integers(2, 5))]])
    rows = rows * np.exp(draw.rng.normal(size=(draw.rng.integers(2, 5), rows.shape[1])) * draw.log(1e-9, 5.0))
    return rows / rows.sum(axis=1, keepdims=True)


def random_density(draw: ParameterSampler) -> dict[str, Any]:
    """A density of one hump, of random width, on random cells."""
    width, apart = draw.log(0.1, 10.0), draw.log(1e-6, 30.0)

    def density(x: Any, y: Any) -> Any:
        return np.exp(-0.5 * ((y - x) / width) ** 2) / (width * math.sqrt(2 * math.pi))

    reach = draw.log(6.0, 20.0) * width
    cells = int(draw.log(8, 300))
    return {"density": density, "inputs": [0.0, apart], "low": -reach, "high": apart + reach, "cells": cells}


def random_cancelling_noise(draw: ParameterSampler) -> dict[str, Any]:
    """Noise that cancels."""
    rate, shape, ratio = (
        draw.real(0.02, 5.0),
        draw.real(0.1, 60.0),
        draw.one_of(draw.real(0.01, 0.98), draw.probability()),
    )
    return {"rate": rate, "shape": shape, "ratio": ratio, "honest": draw.integer(0, 10**6)}


def random_modular_shares(draw: ParameterSampler) -> dict[str, Any]:
    """Shares modulo N."""
    modulus = draw.one_of(1 << int(draw.rng.integers(1, 61)), draw.integer(1, 10**9))
    return {"modulus": modulus, "messages": draw.integer(1, 14), "honest": draw.integer(1, 10**6)}


SETTINGS: dict[str, Callable[[ParameterSampler], dict[str, Any]]] = {
    "balcer-cheu": lambda d: {"options": d.integer(1, 300), "coin": d.probability(), "coins": d.integer(1, 1000)},
    "balcer-uniform": lambda d: {"options": d.integer(1, 300), "coins": d.integer(1, 1000)},
    "balls-into-bins": lambda d: {
        **{"options": d.integer(1, 300), "bins": d.integer(1, 300)},
        **{"dummies": d.integer(1, 1000), "share": d.probability(), "special": d.one_of(1, d.integer(1, 20))},
    },
    "cancelling-noise": lambda d: {
        "options": d.integer(1, 10**6),
        **random_cancelling_noise(d),
        "places": d.one_of(0, 0, d.integer(1, 60)),
    },
    "cancelling-sets": lambda d: {"options": d.integer(1, 300), "items": d.integer(1, 4), **random_cancelling_noise(d)},
    "cancelling-tree": lambda d: {
        "options": d.integer(1, 300),
        "fan_out": d.integer(1, 300),
        **random_cancelling_noise(d),
    },
    "cheu-zhilyaev": lambda d: {"options": d.integer(1, 300), "flip": d.probability(), "dummies": d.integer(1, 1000)},
    "collision": lambda d: {
        "options": d.integer(1, 300),
        "items": d.integer(1, 20),
        "length": d.value_or_none(d.integer(1, 1000)),
    },
    "density": random_density,
    "duchi": lambda d: {"dimension": d.integer(1, 200)},
    "exponential": lambda d: {"distances": random_distances(d)},
    "gaussian": lambda d: {
        **{"multiplier": d.real(0.8, 30.0), "grid": d.integer(1, 2)},
        **{"low": d.real(1e-9, 1.0), "high": d.real(1.0, 1e9)},
    },
    "gaussian-vector": lambda d: {"multiplier": d.real(4.0, 30.0), "dimension": d.integer(1, 300)},
    "hadamard-response": lambda d: {"options": d.integer(1, 300), "blocks": d.integer(1, 64)},
    "harmony": lambda d: {"dimension": d.integer(1, 300)},
    "krr": lambda d: {"options": d.integer(1, 10**9)},
    "laplace": lambda d: {"low": d.real(1e-9, 1.0), "high": d.real(1.0, 1e9), "grid": d.integer(1, 1024)},
    "local-hash": lambda d: {"options": d.integer(1, 10**6), "length": d.value_or_none(d.integer(1, 10**4))},
    "mix-dump": lambda d: {
        **{"options": d.integer(1, 300), "flip": d.probability()},
        **{"dummies": d.integer(1, 1000), "share": d.probability()},
    },
    "oue": lambda d: {"options": d.integer(1, 1000)},
    "padded-exponential": lambda d: {"distances": random_distances(d)},
    "all-answered": lambda d: {"mechanisms": [random_mechanism(d, "krr"), random_mechanism(d, "pure-dump")]},
    "parallel": lambda d: {"mechanisms": [random_mechanism(d, "krr"), random_mechanism(d, "rappor")]},
    "pckv": lambda d: {"keys": d.integer(1, 300), "padding": d.integer(1, 30)},
    "pi-rappor": lambda d: {
        **{"options": d.integer(1, 10**6), "variant": d.one_of("replacement", "blocks", "fields")},
        **{"prime": d.value_or_none(d.one_of(2, 3, 5, 7, 101, 4, d.integer(1, 1000)))},
    },
    "piecewise": lambda d: {"grid": d.integer(1, 1024)},
    "planar-laplace": lambda d: {
        **{"west": d.real(1e-9, 1.0), "east": d.real(1.0, 1e9), "columns": d.integer(1, 8), "rows": d.integer(0, 8)},
        **{"coordinates": d.one_of("plane", "plane", "degrees")},
    },
    "poisson-dump": lambda d: {"options": d.integer(1, 300), "mean": d.real(1e-3, 1e5), "honest": d.integer(0, 10**6)},
    "poisson-tables": lambda d: {
        **{"options": d.integer(1, 300), "tables": d.integer(1, 8)},
        **{"mean": d.real(1e-3, 1e5), "honest": d.integer(0, 10**6)},
    },
    "privhs": lambda d: {"dimension": d.integer(1, 300)},
    "privkv": lambda d: {"keys": d.integer(1, 300), "share": d.probability(), "items": d.integer(1, 20)},
    "privset": lambda d: {
        "options": d.integer(1, 300),
        "items": d.integer(1, 20),
        "size": d.value_or_none(d.integer(1, 300)),
    },
    "privunit": lambda d: {"dimension": d.integer(1, 300)},
    "privunit-g": lambda d: {"dimension": d.integer(1, 300)},
    "privunit-optimized": lambda d: {"dimension": d.integer(1, 300)},
    "projective-geometry": lambda d: {
        **{"options": d.integer(1, 10**6)},
        **{"prime": d.value_or_none(d.one_of(2, 3, 5, 7, 101, 4, d.integer(1, 1000)))},
    },
    "pure-dump": lambda d: {"options": d.integer(1, 300), "dummies": d.integer(1, 1000), "share": d.probability()},
    "range-queries": lambda d: {"height": d.integer(1, 4)},
    "range-tree": lambda d: {
        **{"options": d.integer(1, 300), "mean": d.real(1e-3, 1e5)},
        **{"honest": d.integer(0, 10**6), "fan_out": d.integer(1, 300)},
    },
    "rappor": lambda d: {"options": d.integer(1, 1000)},
    "repeated": lambda d: {"mechanism": random_mechanism(d, "privunit"), "runs": d.integer(1, 6)},
    "sampling-rappor": lambda d: {"options": d.integer(1, 300), "items": d.integer(1, 20)},
    "split-and-mix": lambda d: {"rate": d.real(1e-6, 5.0), "levels": d.integer(1, 1000), **random_modular_shares(d)},
    "split-and-mix-vector": lambda d: {
        **{"dimension": d.integer(1, 8), "scale": d.real(0.1, 1e4), "levels": d.integer(1, 100)},
        **random_modular_shares(d),
    },
    "sqkr": lambda d: {
        **{"dimension": d.integer(1, 300), "signs": d.value_or_none(d.integer(1, 12))},
        **{"level": d.real(0.1, 30.0), "frame": d.integer(0, 3)},
    },
    "subset": lambda d: {"options": d.integer(1, 10**4), "size": d.value_or_none(d.integer(1, 10**4))},
    "table": lambda d: {"matrix": random_table(d)},
    "wheel": lambda d: {
        **{"options": d.integer(1, 300), "items": d.integer(1, 20)},
        **{"arc": d.value_or_none(d.probability()), "circle": d.value_or_none(d.integer(1, 10**6))},
    },
    "witch-hat": lambda d: {"half_width": d.real(1e-6, 1e6), "scale": d.real(1e-3, 1e6), "grid": d.integer(1, 256)},
}
"""Settings besides ε, by the mechanism's name; a mechanism without an entry fails the test."""


def random_mechanism(draw: ParameterSampler, name: str) -> Any:
    """The mechanism of a name with random settings; a refusal is raised."""
    kind = catalogue.all_mechanisms()[name]
    chosen = SETTINGS[name](draw)
    if catalogue.takes_epsilon(kind):
        chosen["epsilon"] = draw.real(1e-9, 100.0)
    return kind(**chosen)


@dataclass(frozen=True)
class FuzzResult:
    """What a case asked, and what is wrong with the answer: nothing, in most."""

    call_text: str
    complaint: str
    is_refused: bool


def run_case(seed: int, number: int) -> FuzzResult:
    """One case, drawn from its own seed."""
    draw = ParameterSampler(np.random.default_rng([seed, number]))
    asked: list[str] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            complaint = _complaint(draw, asked)
            return FuzzResult("; ".join(asked), complaint, is_refused=False)
    except EXPECTED_ERRORS as error:
        return FuzzResult("; ".join(asked), "" if _is_proper_message(error) else _last_lines(), is_refused=True)
    except Exception:
        return FuzzResult("; ".join(asked), _last_lines(), is_refused=True)


def _is_proper_message(error: Exception) -> bool:
    """Ours name who expects what and end in a full stop; a NumericalError asks for a report, so it is a complaint."""
    words = str(error)
    return not isinstance(error, ArithmeticError) and ": " in words and words.endswith(".")


def _last_lines() -> str:
    return traceback.format_exc(limit=-4)


def _complaint(draw: ParameterSampler, asked: list[str]) -> str:
    name = draw.one_of("", "", *SETTINGS) if draw.rng.random() < 0.5 else ""
    asked.append(name or "variation-ratio")
    if name:
        randomizer: Any = random_mechanism(draw, name)
    else:
        chosen = random_parameters(draw)
        asked.append(repr(chosen))
        randomizer = sdp.VariationRatio(**chosen)
    asked.append(repr(randomizer)[:300])
    users = draw.integer(1, 10**12)
    colluding = draw.one_of(0, 0, 0, draw.integer(1, 1000))
    bound = draw.one_of("best", "best", *bound_names())
    asked.append(f"users={users!r}, colluding={colluding!r}, bound={bound!r}")
    curve = sdp.amplify(randomizer, users, colluding=colluding, bound=bound)
    if draw.rng.random() < 0.6:
        delta = draw.log(1e-100, 1e-3)
        asked.append(f"epsilon({delta!r})")
        return _find_defect(curve.epsilon(delta), curve.guarantee)
    epsilon = draw.one_of(0.0, draw.real(1e-9, 50.0), draw.log(1e-3, 10.0) / math.sqrt(curve.messages))
    asked.append(f"delta({epsilon!r})")
    value = curve.delta(epsilon)
    (upper,) = curve.profile([epsilon]).upper
    if not 0 <= upper <= 1:
        return f"profile says {upper!r}"
    return "above 1" if value.upper > 1 else _find_defect(value, curve.guarantee)


def _find_defect(value: Any, guarantee: bool) -> str:
    """What a value that answers may not be."""
    if not (value.upper >= 0 and value.slack >= 0):
        return f"upper {value.upper!r}, slack {value.slack!r}"
    lower = value.lower
    if lower is not None and not lower >= 0:
        return f"lower {lower!r}"
    if guarantee and lower is not None and lower > value.upper:
        return f"lower {lower!r} above upper {value.upper!r}"
    return ""


def complaints(cases: int, seed: int = SEED) -> Iterator[tuple[int, FuzzResult]]:
    """The cases whose answer is wrong, each with its number."""
    for number in range(cases):
        found = run_case(seed, number)
        if found.complaint:
            yield number, found


if __name__ == "__main__":
    count = int(sys.argv[1])
    bad = 0
    for number, found in complaints(count, int(sys.argv[2]) if len(sys.argv) > 2 else SEED):
        bad += 1
        print(f"--- {number}: {found.call_text}\n{found.complaint}", flush=True)
    print(f"{count} cases, {bad} complaints")
