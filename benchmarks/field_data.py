"""The field's benchmark: data sets that are available offline, and protocols calibrated to one target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import shuffledp as sdp
from shuffledp.cli import _example_flights

USERS = 50_000
EPSILON, DELTA = 1.0, 1e-8
SEED = 20_260_101
OPTIONS = 104
"""Of every data set of categories, so that a protocol is calibrated once: as many as flights have destinations."""
ROWS, COLUMNS = 8, 13
"""Cells of a map."""


@dataclass(frozen=True)
class DataSet:
    """One column of ``USERS`` people: options from 0, or numbers from 0 to 1."""

    name: str
    task: str
    values: Any


def _flights(rng: np.random.Generator) -> list[DataSet]:
    table = _example_flights.load_flights().to_pandas().dropna()
    chosen = table.sample(USERS, random_state=1)
    names = {name: place for place, name in enumerate(_example_flights.destinations())}
    low, high = _example_flights.MIN_DELAY, _example_flights.MAX_DELAY
    places = [
        (chosen[axis] - table[axis].min()) / (table[axis].max() - table[axis].min())
        for axis in ("latitude", "longitude")
    ]
    return [
        DataSet("flights: destination", "frequency", chosen["destination"].map(names).to_numpy()),
        DataSet("flights: delay", "mean", ((chosen["delay"] - low) / (high - low)).to_numpy()),
        DataSet("places: where flights go", "frequency", _cells(*(axis.to_numpy() for axis in places))),
    ]


def _cells(across: Any, up: Any) -> Any:
    numbers = [np.minimum((axis * many).astype(np.int64), many - 1) for axis, many in ((across, ROWS), (up, COLUMNS))]
    return numbers[0] * COLUMNS + numbers[1]


def _words(rng: np.random.Generator) -> DataSet:
    """English words by their real frequencies where wordfreq is installed, else by Zipf's law."""
    try:
        from wordfreq import top_n_list, word_frequency
    except ImportError:
        return DataSet("words: by Zipf's law", "frequency", _zipf(1.0, rng))
    shares = np.array([word_frequency(word, "en") for word in top_n_list("en", OPTIONS)])
    return DataSet("words: wordfreq", "frequency", rng.choice(OPTIONS, USERS, p=shares / shares.sum()))


def _zipf(power: float, rng: np.random.Generator) -> Any:
    shares = np.arange(1, OPTIONS + 1.0) ** -power
    return rng.choice(OPTIONS, USERS, p=shares / shares.sum())


@cache
def data_sets() -> tuple[DataSet, ...]:
    rng = np.random.default_rng(SEED)
    ages = np.clip(rng.gamma(3.2, 12.0, USERS), 0, OPTIONS - 1).astype(np.int64)
    salaries = np.clip(rng.lognormal(10.6, 0.6, USERS) / 200_000, 0, 1)
    return (
        *_flights(rng),
        _words(rng),
        DataSet("census-like: age", "frequency", ages),
        DataSet("census-like: mean age", "mean", ages / (OPTIONS - 1)),
        DataSet("Zipf, power 1.5", "frequency", _zipf(1.5, rng)),
        DataSet("salaries-like: mean", "mean", salaries),
    )


@dataclass(frozen=True)
class Protocol:
    """A mechanism for a data set, and its setting that meets the target."""

    name: str
    task: str
    kind: Callable[..., Any]
    find: str | None = None
    scale: Callable[[Any], Any] = np.asarray
    planned: bool = False
    """Several settings are one design, which the planner chooses."""

    def settings(self) -> dict[str, Any]:
        options = {"options": OPTIONS} if self.task == "frequency" else {}
        return {**options, **EXTRA.get(self.name, {})}


EXTRA: dict[str, dict[str, Any]] = {
    "balls-into-bins": {"bins": 61},
    "poisson-dump": {"honest": USERS},
    "duchi": {"dimension": 1},
    "harmony": {"dimension": 1},
}
"""Settings besides the number of options and the one that is found."""


def _signed(values: Any) -> Any:
    return 2 * values - 1


def _column(values: Any) -> Any:
    return _signed(values)[:, None]


PROTOCOLS = (
    Protocol("krr", "frequency", sdp.KRR),
    Protocol("rappor", "frequency", sdp.RAPPOR),
    Protocol("oue", "frequency", sdp.OUE),
    Protocol("subset", "frequency", sdp.Subset),
    Protocol("local-hash", "frequency", sdp.LocalHash),
    Protocol("hadamard-response", "frequency", sdp.HadamardResponse),
    Protocol("pi-rappor", "frequency", sdp.PIRAPPOR),
    Protocol("projective-geometry", "frequency", sdp.ProjectiveGeometry),
    Protocol("pure-dump", "frequency", sdp.PureDUMP, "share"),
    Protocol("mix-dump", "frequency", sdp.MixDUMP),
    Protocol("balls-into-bins", "frequency", sdp.BallsIntoBins, "share"),
    Protocol("cheu-zhilyaev", "frequency", sdp.CheuZhilyaev),
    Protocol("balcer-cheu", "frequency", sdp.BalcerCheu),
    Protocol("poisson-dump", "frequency", sdp.PoissonDUMP, "mean"),
    Protocol("cancelling-noise", "frequency", sdp.CancellingNoise, planned=True),
    Protocol("laplace", "mean", sdp.Laplace),
    Protocol("piecewise", "mean", sdp.Piecewise, scale=_signed),
    Protocol("duchi", "mean", sdp.Duchi, scale=_column),
    Protocol("harmony", "mean", sdp.Harmony, scale=_column),
    Protocol("split-and-mix", "mean", sdp.SplitAndMix, planned=True),
)


@dataclass(frozen=True)
class Found:
    """A protocol that meets the target."""

    mechanism: Any
    epsilon: Any
    setting: str


@cache
def calibrated(place: int) -> Found:
    """The protocol at this place, at the target by the quick bounds."""
    protocol = PROTOCOLS[place]
    if protocol.planned:
        task = sdp.tasks.Frequency(OPTIONS) if protocol.task == "frequency" else sdp.tasks.Mean(0, 1)
        best = sdp.plan(
            task, users=USERS, epsilon=EPSILON, delta=DELTA, mechanism=protocol.name, rests_on="shuffler"
        ).best
        assert best is not None
        mechanism = best.plan.mechanism
        return Found(mechanism, sdp.amplify(mechanism, USERS, effort="quick").epsilon(DELTA), "design")
    found = sdp.calibrate(
        protocol.kind, users=USERS, epsilon=EPSILON, delta=DELTA, find=protocol.find, effort="quick",
        **protocol.settings(),
    )  # fmt: skip
    return Found(found.mechanism, found.epsilon, found.setting)
