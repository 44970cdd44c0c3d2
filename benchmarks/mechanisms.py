"""Speed of encoding and estimating, side by side with pure-ldp and multi-freq-ldpy.

    .venv/bin/python benchmarks/mechanisms.py [--users 1e6] [--options 128 1024] [--rivals PYTHON]

Steps of all libraries alternate, so that other load on the machine slows all alike; times are processor time, all
threads together, medians over the repetitions. The rivals run in one process of the interpreter that --rivals names.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from shuffledp._core.validation import Array
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.catalogue import all_mechanisms, has_default, settings_fields

COMPARED = ("krr", "oue", "local-hash", "hadamard-response")
BARS = {
    ("krr", "encode"): 30,
    ("krr", "aggregate"): 30,
    ("oue", "encode"): 30,
    ("oue", "aggregate"): 10,
    ("local-hash", "encode"): 80,
    ("local-hash", "aggregate"): 5_000,
    ("hadamard-response", "encode"): 200,
}
"""How many times faster per user than the faster rival, with the operating system's randomness."""
HEURISTIC = "pure-ldp fast"
"""Local hashing with a fixed few hash functions is another mechanism: it is shown, no bar is held against it."""
SIZES = {"options": 128, "items": 4, "keys": 128, "padding": 4, "dimension": 16}
"""Settings without a default, in the table of all mechanisms."""
CATALOGUE_USERS = 200_000
SEED = 1


@dataclass(frozen=True)
class Row:
    """One step of one mechanism at one size, in seconds per user."""

    mechanism: str
    options: int
    step: str
    system: float
    """Ours; for encoding, with the operating system's AES-CTR source."""
    seeded: float | None
    """Ours with numpy's PCG64; only for encoding."""
    rivals: dict[str, float]
    sampled: int | None
    """Users that the rivals ran on."""

    @property
    def rival(self) -> float | None:
        """The faster rival that has the same mechanism."""
        return min((seconds for name, seconds in self.rivals.items() if name != HEURISTIC), default=None)

    @property
    def ratio(self) -> float | None:
        return None if self.rival is None else self.rival / self.system

    @property
    def bar(self) -> int | None:
        return BARS.get((self.mechanism, self.step))

    @property
    def verdict(self) -> str:
        if self.ratio is None or self.bar is None:
            return ""
        return "met" if self.ratio >= self.bar else "NOT MET"


@dataclass(frozen=True)
class Alone:
    """Our times for one mechanism of the catalogue, in seconds per user; ``finish`` in seconds per call."""

    mechanism: str
    settings: str
    message_bits: int
    encode: float
    encode_seeded: float
    pack: float
    accumulate: float
    finish: float


class Rivals:
    """The process that runs the rivals."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.versions = self._ask(do="versions")
        self.libraries: list[str] = self.versions.pop("libraries")

    def prepare(self, mechanism: str, options: int, epsilon: float, users: int) -> dict[str, dict[str, int]]:
        """Returns, for each library that has the mechanism, the number of users of each step."""
        size = {"mechanism": mechanism, "options": options, "epsilon": epsilon, "users": users}
        ready = {library: self._ask(do="prepare", library=library, **size) for library in self.libraries}
        return {
            library: {"encode": reply["encoded"], "aggregate": reply["aggregated"]}
            for library, reply in ready.items()
            if reply["encoded"] is not None
        }

    def seconds(self, library: str, step: str) -> float:
        return float(self._ask(do=step, library=library)["seconds"])

    def _ask(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("The rivals' process ended; its message stands above.")
        reply: dict[str, Any] = json.loads(answer)
        return reply


@contextmanager
def rivals_of(interpreter: str | None) -> Iterator[Rivals | None]:
    """The rivals in an interpreter that has them; None for none."""
    if interpreter is None:
        yield None
        return
    script = Path(__file__).with_name("rivals.py")
    # Our own modules must not be found there: that interpreter may have other versions of what they need.
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [interpreter, str(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings
    ) as process:
        yield Rivals(process)
        assert process.stdin is not None
        process.stdin.close()


def seconds_of(step: Callable[[], Any]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def pcg64() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(SEED))


def medians(steps: dict[Any, Callable[[], float]], repetitions: int) -> dict[Any, float]:
    """The median of each step's times, all steps taken in turn; a first round does not count."""
    times: dict[Any, list[float]] = {name: [] for name in steps}
    for round_number in range(repetitions + 1):
        for name, step in steps.items():
            seconds = step()
            if round_number:
                times[name].append(seconds)
    return {name: statistics.median(measured) for name, measured in times.items()}


def compare(name: str, options: int, choice: argparse.Namespace, rivals: Rivals | None) -> list[Row]:
    """Compares both steps of one mechanism at one size."""
    users = choice.users
    mechanism = all_mechanisms()[name](epsilon=choice.epsilon, options=options)  # type: ignore[call-arg]
    values = pcg64().integers(0, options, users)
    messages = mechanism.encode(values)
    steps: dict[Any, Callable[[], float]] = {
        ("encode", "system"): lambda: seconds_of(lambda: mechanism.encode(values)) / users,
        ("encode", "seeded"): lambda: seconds_of(lambda: mechanism.encode(values, rng=pcg64())) / users,
        ("aggregate", "system"): lambda: seconds_of(lambda: mechanism.estimate(messages)) / users,
    }
    samples = rivals.prepare(name, options, choice.epsilon, users) if rivals else {}

    def rival(library: str, step: str) -> Callable[[], float]:
        assert rivals is not None
        return lambda: rivals.seconds(library, step)

    for step in ("encode", "aggregate"):
        steps |= {(step, library): rival(library, step) for library in samples}
    seconds = medians(steps, choice.repetitions)
    return [
        Row(
            mechanism=name,
            options=options,
            step=step,
            system=seconds[step, "system"],
            seeded=seconds.get((step, "seeded")),
            rivals={library: seconds[step, library] for library in samples},
            sampled=min((sample[step] for sample in samples.values()), default=None),
        )
        for step in ("encode", "aggregate")
    ]


def different(users: int, options: int, items: int, rng: np.random.Generator) -> Array:
    """Rows of different numbers below ``options``."""
    return (rng.integers(0, options, (users, 1)) + np.arange(items) * (options // items)) % options


def categories(mechanism: Any, users: int, rng: np.random.Generator) -> Array:
    return rng.integers(0, mechanism.options, users)


def sets(mechanism: Any, users: int, rng: np.random.Generator) -> Array:
    return different(users, mechanism.options, mechanism.items, rng)


def numbers(mechanism: Any, users: int, rng: np.random.Generator) -> Array:
    return rng.uniform(getattr(mechanism, "low", -1.0), getattr(mechanism, "high", 1.0), users)


def vectors(mechanism: Any, users: int, rng: np.random.Generator) -> Array:
    # Inside the unit ball too, for the mechanisms that ask for it.
    return rng.uniform(-1.0, 1.0, (users, mechanism.dimension)) / np.sqrt(mechanism.dimension)


def pairs(mechanism: Any, users: int, rng: np.random.Generator) -> Array:
    options = mechanism.keys if hasattr(mechanism, "keys") else mechanism.options
    items = getattr(mechanism, "items", SIZES["items"])
    keys = different(users, options, items, rng)
    return np.stack([keys, rng.uniform(-1.0, 1.0, keys.shape)], axis=-1)


VALUES: dict[str, Callable[[Any, int, np.random.Generator], Array]] = {
    "frequency": categories,
    "set-valued": sets,
    "mean": numbers,
    "vector mean": vectors,
    "key-value": pairs,
}
"""By task: values for a mechanism of everyday size."""


def instance_and_values(kind: type[Mechanism], epsilon: float, users: int) -> tuple[Mechanism, Array]:
    """An instance of everyday size; where numbers do not suffice to build one, an example of the class."""
    needed = [field.name for field in settings_fields(kind) if not has_default(field)]
    if kind.has_numeric_settings and kind.task in VALUES and set(needed) <= set(SIZES):
        mechanism = kind(epsilon=epsilon, **{name: SIZES[name] for name in needed})  # type: ignore[call-arg]
        return mechanism, VALUES[kind.task](mechanism, users, pcg64())
    mechanism = kind.examples()[-1]
    return mechanism, pcg64().choice(mechanism.table().inputs, users)


def measure_alone(kind: type[Mechanism], choice: argparse.Namespace) -> Alone:
    """Measures our times for one mechanism of the catalogue."""
    users = min(CATALOGUE_USERS, choice.users)
    mechanism, values = instance_and_values(kind, choice.epsilon, users)
    messages = mechanism.encode(values)
    total = mechanism.accumulate(messages)
    steps: dict[Any, Callable[[], float]] = {
        "encode": lambda: seconds_of(lambda: mechanism.encode(values)),
        "encode_seeded": lambda: seconds_of(lambda: mechanism.encode(values, rng=pcg64())),
        "pack": lambda: seconds_of(lambda: mechanism.pack(messages)),
        "accumulate": lambda: seconds_of(lambda: mechanism.accumulate(messages)),
        "finish": lambda: seconds_of(lambda: mechanism.finish(total, users)),
    }
    seconds = medians(steps, choice.repetitions)
    shown = ", ".join(f"{name} {value:.4g}" for name, value in mechanism.settings().items() if value is not None)
    return Alone(
        mechanism=kind.name,
        settings=shown,
        message_bits=mechanism.message_bits,
        encode=seconds["encode"] / users,
        encode_seeded=seconds["encode_seeded"] / users,
        pack=seconds["pack"] / users,
        accumulate=seconds["accumulate"] / users,
        finish=seconds["finish"],
    )


def comparison_table(rows: Sequence[Row], libraries: Sequence[str], users: int) -> Table:
    """The table of both steps."""
    table = Table(title=f"Nanoseconds per user, n = {users:,}", title_justify="left", box=MARKDOWN)
    against = [*libraries, "rivals' users", "ratio", "ratio PCG64", "bar", "verdict"] if libraries else []
    for heading in ("mechanism", "d", "step", "ours AES-CTR", "ours PCG64", *against):
        table.add_column(heading, justify="left" if heading in ("mechanism", "step", "verdict") else "right")
    for row in rows:
        own = [nanoseconds(row.system), "" if row.seeded is None else nanoseconds(row.seeded)]
        table.add_row(
            row.mechanism, str(row.options), row.step, *own, *(rival_cells(row, libraries) if against else [])
        )
    return table


def rival_cells(row: Row, libraries: Sequence[str]) -> list[str]:
    """Returns the cells of a row about the other libraries."""
    times = [nanoseconds(row.rivals[name]) if name in row.rivals else "" for name in libraries]
    seeded = "" if row.seeded is None or row.rival is None else f"{row.rival / row.seeded:,.0f}"
    ratio = "" if row.ratio is None else f"{row.ratio:,.0f}"
    bar = "" if row.bar is None else f"≥ {row.bar:,}"
    return [*times, "" if row.sampled is None else f"{row.sampled:,}", ratio, seeded, bar, row.verdict]


def alone_table(rows: Sequence[Alone], users: int) -> Table:
    """The table of all mechanisms."""
    title = f"Every mechanism: nanoseconds per user at {users:,} users; finish in milliseconds per call"
    table = Table(title=title, title_justify="left", box=MARKDOWN)
    for heading in ("mechanism", "settings"):
        table.add_column(heading)
    for heading in ("message bits", "encode AES-CTR", "encode PCG64", "pack", "accumulate", "finish ms"):
        table.add_column(heading, justify="right")
    for row in rows:
        times = (row.encode, row.encode_seeded, row.pack, row.accumulate)
        table.add_row(
            row.mechanism, row.settings, str(row.message_bits), *map(nanoseconds, times), f"{row.finish * 1e3:.3g}"
        )
    return table


def nanoseconds(seconds: float) -> str:
    value = seconds * 1e9
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--users", type=float, default=1e6)
    parser.add_argument("--options", type=int, nargs="+", default=[128, 1024], help="domain sizes d")
    parser.add_argument("--epsilon", type=float, default=1.0, help="local ε")
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--rivals", metavar="PYTHON", help="interpreter that has pure-ldp and multi-freq-ldpy")
    parser.add_argument("--json", type=Path, help="also write every measured number to this file")
    choice = parser.parse_args()
    choice.users = int(choice.users)
    if choice.rivals is not None and shutil.which(choice.rivals) is None:
        parser.error(f"--rivals must name a Python interpreter, got {choice.rivals!r}.")
    return choice


def main() -> None:
    choice = parse()
    # Wide enough for whole rows, also where the output is a file.
    console = Console(width=240)
    progress = Console(stderr=True)
    load = os.getloadavg()[0]
    rows: list[Row] = []
    with rivals_of(choice.rivals) as rivals:
        libraries = rivals.libraries if rivals else []
        if rivals is None:
            console.print("Only ours is measured: --rivals names an interpreter that has pure-ldp and multi-freq-ldpy.")
        else:
            console.print("Rivals: " + ", ".join(f"{name} {version}" for name, version in rivals.versions.items()))
        for options in choice.options:
            for name in COMPARED:
                with progress.status(f"{name}, d = {options}"):
                    rows += compare(name, options, choice, rivals)
    console.print(comparison_table(rows, libraries, choice.users))
    alone = []
    for name, kind in all_mechanisms().items():
        with progress.status(name):
            alone.append(measure_alone(kind, choice))
    console.print(alone_table(alone, min(CATALOGUE_USERS, choice.users)))
    console.print(
        f"ε = {choice.epsilon:g}; medians of {choice.repetitions} interleaved repetitions, processor time; "
        f"numpy {np.__version__}; {os.cpu_count()} cores, "
        f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after."
    )
    if choice.json:
        record = {"comparison": [asdict(row) for row in rows], "alone": [asdict(row) for row in alone]}
        choice.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
