"""What the field's benchmark asks: data sets that can be had offline, and protocols calibrated to one target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import shuffledp as sdp
from shuffledp.cli import example_data

USERS = 50_000
EPSILON, DELTA = 1.0, 1e-8
SEED = 20_260_101
CELLS = 6
"""A map has so many rows and columns."""


@dataclass(frozen=True)
class DataSet:
    """One column of ``USERS`` people: options from 0, or numbers from 0 to 1."""

    name: str
    task: str
    values: Any
    options: int = 0


def _flights(rng: np.random.Generator) -> list[DataSet]:
    table = example_data.flights().to_pandas().dropna()
    chosen = table.sample(USERS, random_state=1)
    names = {name: place for place, name in enumerate(example_data.destinations())}
    low, high = example_data.EARLIEST, example_data.LATEST
    columns = [
        (chosen[axis] - table[axis].min()) / (table[axis].max() - table[axis].min())
        for axis in ("latitude", "longitude")
    ]
    return [
        DataSet("flights: destination", "frequency", chosen["destination"].map(names).to_numpy(), len(names)),
        DataSet("flights: delay", "mean", ((chosen["delay"] - low) / (high - low)).to_numpy()),
        DataSet("places: where flights go", "frequency", _cells(*(column.to_numpy() for column in columns)), CELLS**2),
    ]


def _cells(rows: Any, columns: Any) -> Any:
    places = [np.minimum((axis * CELLS).astype(np.int64), CELLS - 1) for axis in (rows, columns)]
    return places[0] * CELLS + places[1]


def _words(rng: np.random.Generator) -> DataSet:
    """English words by their real frequencies where wordfreq is installed, else by Zipf's law."""
    try:
        from wordfreq import top_n_list, word_frequency
    except ImportError:
        return DataSet("words: by Zipf's law", "frequency", _zipf(256, 1.0, rng), 256)
    shares = np.array([word_frequency(word, "en") for word in top_n_list("en", 256)])
    return DataSet("words: wordfreq", "frequency", rng.choice(256, USERS, p=shares / shares.sum()), 256)


def _zipf(options: int, power: float, rng: np.random.Generator) -> Any:
    shares = np.arange(1, options + 1.0) ** -power
    return rng.choice(options, USERS, p=shares / shares.sum())


@cache
def data_sets() -> tuple[DataSet, ...]:
    rng = np.random.default_rng(SEED)
    ages = np.clip(rng.gamma(3.2, 12.0, USERS), 0, 99).astype(np.int64)
    salaries = np.clip(rng.lognormal(10.6, 0.6, USERS) / 200_000, 0, 1)
    return (
        *_flights(rng),
        _words(rng),
        DataSet("census-like: age", "frequency", ages, 100),
        DataSet("census-like: mean age", "mean", ages / 99),
        DataSet("Zipf, power 1.5", "frequency", _zipf(64, 1.5, rng), 64),
        DataSet("salaries-like: mean", "mean", salaries),
    )


@dataclass(frozen=True)
class Protocol:
    """How a mechanism is made for a data set, and which of its settings meets the target."""

    name: str
    task: str
    kind: Callable[..., Any]
    find: str | None = None
    scale: Callable[[Any], Any] = staticmethod(lambda values: values)

    def settings(self, data: DataSet) -> dict[str, Any]:
        bins = {"bins": 61} if self.kind is sdp.BallsIntoBins else {}
        return {"options": data.options, **bins} if self.task == "frequency" else EXTRA.get(self.name, {})


EXTRA: dict[str, dict[str, Any]] = {"duchi": {"dimension": 1}, "harmony": {"dimension": 1}}
"""Settings of protocols for means."""


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
    Protocol("laplace", "mean", sdp.Laplace),
    Protocol("piecewise", "mean", sdp.Piecewise, scale=_signed),
    Protocol("duchi", "mean", sdp.Duchi, scale=_column),
    Protocol("harmony", "mean", sdp.Harmony, scale=_column),
)


@cache
def calibrated(place: int, options: int) -> Any:
    """The protocol at this place, calibrated to the target by the quick bounds, for a domain of this size."""
    protocol = PROTOCOLS[place]
    given = protocol.settings(DataSet("", protocol.task, None, options))
    found = sdp.calibrate(
        protocol.kind, users=USERS, epsilon=EPSILON, delta=DELTA, find=protocol.find, effort="quick", **given
    )
    return found
