"""Compare every number, byte and public name of the package with the ones stored in tests/golden/snapshot.

    python scripts/snapshot.py                     compare everything; print each difference, exit 1 if there is one
    python scripts/snapshot.py --fast              the cheap part only (about 25 s of processor time)
    python scripts/snapshot.py --only wire bounds  some sections only
    python scripts/snapshot.py --write             store the present results
    python scripts/snapshot.py --jobs 2            two processes

It is for changes that must not change behaviour, such as moving modules: floats are compared to the last bit (they are
stored by ``float.hex``), messages by their bytes, documents by their text. It uses the public interface and the command
line; the few private names that it needs are imported in one place below.

Sections, one file each:

- ``surface``: public names, their signatures, the options of every command.
- ``mechanisms``: settings, sizes and parameters of every example of the catalogue.
- ``bounds``: ε, slack and attack for every example × three numbers of users × every bound.
- ``refusals``: the messages of bounds that do not apply to these.
- ``curves``: δ(ε), composition, subsampling, Poisson sampling, non-response, groups, Rényi, Gaussian limit, sweeps.
- ``tradeoff``, ``calibration``, ``metric``: trade-off functions and attack risks; calibrated settings; metric privacy.
- ``wire``: messages of every example from a fixed seed and from a fixed key, and the estimates from them.
- ``plans``: the ranking for every task, plan files, simulations.
- ``certificates``: claims, and the verdicts of ``verify`` on them and on false ones.
- ``collections``: every file that a small collection of each task writes, the roles one by one, ledgers.
- ``commands``: the output of commands with ``--json``.

Everything random or dependent on the clock is made reproducible: ``os.urandom`` gives a fixed stream, the clock stands
still, and processor times, which plans report as costs, advance by a fixed step. Left out are: ``audit`` with its large
samples, commands that listen on a port or generate keys outside of ``os.urandom`` (``serve``, ``send``, ``receive``,
``demo``, ``web``, ``keys``, ``campaign``; their formats are in tests/golden/browser.json and private_tokens.json),
``reproduce`` (its own tests compare it), Spark, pictures, and a few bounds that take many seconds (``SLOW``).

Floating-point results depend on the machine: numpy chooses instructions by the processor, and linear algebra and the C
library have versions. Two processors of different makers, both with AVX-512, differed in the last digits of about 200
numbers of the fast part. So numpy and OpenBLAS are limited to AVX2 and one thread here. ``environment.json`` names the
instructions and the versions with which the files were written. If these differ, floats may differ by ``TOLERANCE``,
and hashes of values computed in floats (``~sha256``, and those within documents) are not compared; if they are equal,
nothing may differ.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import enum
import hashlib
import importlib
import inspect
import io
import json
import math
import os
import platform
import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

# Set before numpy is imported, by the command alone: one thread, because sums in linear algebra may depend on their
# number, and the instructions of AVX2, because the approximate reciprocals of AVX-512 differ between processors.
if "numpy" not in sys.modules:
    os.environ |= {
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    }

import numpy as np
import pyarrow as pa
import typer

import shuffledp as sdp

# --- Private names: the only place to change when modules move ---
from shuffledp.cli import main as run_command_line
from shuffledp.cli.app import app as command_line
from shuffledp.mechanisms.catalogue import all_mechanisms
from shuffledp.sampling.random_sources import KeyedSource

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "golden" / "snapshot"
DELTA = 1e-6
USERS = (10, 1000, 100_000)
SLOW = {
    ("laplace/3", 1000), ("gaussian/1", 1000), ("gaussian/1", 100_000), ("gaussian-vector/1", 1000),
    ("gaussian-vector/1", 100_000), ("privunit/0", 100_000),
}  # fmt: skip
"""Pairs of an example and a number of users for which the bound all-crowds takes four seconds to a minute; left out."""
LONG = 400
"""Length in characters of a text, or in bytes of an array, beyond which it is stored as a hash."""
TOLERANCE = 1e-9
KEY = bytes(range(32))
NOW = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)

Tree = Any
"""A value that JSON can represent."""


# --- Values as JSON ---


def plain(value: Any) -> Tree:
    """Return a value as JSON without losing a bit; raise TypeError for types without an exact form."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bytes):
        return value.hex() if len(value) <= LONG else f"sha256 {sha256(value)} of {len(value)} bytes"
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return shortened([plain(one) for one in value])
    if isinstance(value, sdp.BoundValue):
        return bound_value(value)
    raise TypeError(f"no exact form of {type(value).__name__}: {value!r}")


def shortened(told: list[Tree]) -> Tree:
    """Return a short list unchanged, and a long one as its first entries and a hash."""
    if len(told) <= 24:
        return told
    return {"length": len(told), "head": told[:3], "hash": f"~sha256 {sha256(json.dumps(told).encode())}"}


def array(values: np.ndarray[Any, Any]) -> Tree:
    """Return a small array as its numbers, and a large one as its first numbers and a hash."""
    rows = np.ascontiguousarray(values)
    if rows.size <= 16:
        return plain(rows.tolist())
    floats = "~" if rows.dtype.kind == "f" else ""
    head = plain(rows.ravel()[:4].tolist())
    return {"dtype": str(rows.dtype), "shape": list(rows.shape), "head": head, "hash": f"{floats}sha256 {digest(rows)}"}


def digest(rows: np.ndarray[Any, Any]) -> str:
    return sha256(f"{rows.dtype}{rows.shape}".encode() + rows.tobytes())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def bound_value(value: Any, *, attacked: bool = True) -> Tree:
    """Return the numbers of a value and the name of its bound; texts are recorded elsewhere."""
    told = {"upper": value.upper, "slack": value.slack, "bound": value.bound}
    if attacked:
        told["lower"] = value.lower
    if not value.certified:
        told["certified"] = False
    if not value.guarantee:
        told["guarantee"] = False
    return plain(told)


def answer(ask: Callable[[], Any]) -> Tree:
    """Return a result as JSON, or the exception's type and message."""
    try:
        return plain(ask())
    except (ValueError, TypeError, sdp.ShuffledpError) as error:
        return {type(error).__name__: str(error)}


def document(text: str) -> Tree:
    """Return the fields of a JSON text, floats exactly, and a hash of the text: order, spaces, digits."""
    told = json.loads(text)
    return {"fields": plain(told), "text": f"~sha256 {sha256(text.encode())}"}


def text_of(text: str) -> Tree:
    """Return a text as a list of lines, so that a difference is located; a long one as its first lines and a hash."""
    lines = text.splitlines()
    if len(text) <= 4 * LONG:
        return lines
    return {"lines": len(lines), "head": lines[:5], "hash": f"~sha256 {sha256(text.encode())}"}


# --- Fixed randomness, clock and costs ---


class FixedDatetime(datetime.datetime):
    """A clock that always returns NOW."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return NOW if tz is not None else NOW.replace(tzinfo=None)


class Stream:
    """A fixed stream in place of the operating system's randomness.

    Requests of each size are counted separately, so that one more name of a temporary file does not change any key.
    """

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}

    def __call__(self, size: int) -> bytes:
        number = self._asked[size] = self._asked.get(size, 0) + 1
        return hashlib.shake_256(f"snapshot {size} {number}".encode()).digest(size)


class Steps:
    """A processor clock that advances by a fixed step at each reading."""

    def __init__(self) -> None:
        self._read = 0

    def __call__(self) -> float:
        self._read += 1
        return self._read / 2


@contextlib.contextmanager
def reproducible() -> Iterator[Path]:
    """Enter a new working folder with fixed randomness, clock and costs."""
    stream = Stream()
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        room, before = Path(name).resolve(), Path.cwd()
        home = {"XDG_DATA_HOME": f"{room}/.data", "XDG_STATE_HOME": f"{room}/.state", "COLUMNS": "80", "NO_COLOR": "1"}
        home |= {"TERM": "dumb", "SHUFFLEDP_PROGRESS": "none"}
        dropped = ("SHUFFLEDP_LEDGER", "FORCE_COLOR", "TTY_COMPATIBLE", "SHUFFLEDP_DEBUG", "SHUFFLEDP_COMMAND")
        kept = {key: value for key, value in os.environ.items() if key not in dropped}
        stack.enter_context(mock.patch.dict(os.environ, kept | home, clear=True))
        for owner, attribute, fixed in (
            (os, "urandom", stream),
            (random, "_urandom", stream),
            (os, "fsync", lambda descriptor: None),
            (time, "process_time", Steps()),
        ):
            stack.enter_context(mock.patch.object(owner, attribute, fixed))
        for module in with_clock():
            stack.enter_context(mock.patch.object(module, "datetime", FixedDatetime))
        # Figures are not compared and are slow to draw, so they are turned off.
        before_hidden = sys.modules.get("matplotlib")
        sys.modules["matplotlib"] = None  # type: ignore[assignment]
        stack.callback(restore, "matplotlib", before_hidden)
        os.chdir(room)
        try:
            yield room
        finally:
            os.chdir(before)


def restore(name: str, module: Any) -> None:
    """Restore a hidden module."""
    if module is None:
        del sys.modules[name]
    else:
        sys.modules[name] = module


@cache
def with_clock() -> list[Any]:
    """Import everything public, and return the modules of the package that read the date or the time."""
    for namespace in (namespace_of(name) for name in NAMESPACES if name != "spark"):
        for name in exported(namespace):
            getattr(namespace, name)
    ours = [one for key, one in sys.modules.items() if key.partition(".")[0] == "shuffledp"]
    return [one for one in ours if vars(one).get("datetime") is datetime.datetime]


# --- Cases ---


@dataclasses.dataclass(frozen=True)
class Case:
    """One entry of a section's file; the cases of a group are computed in order by one process."""

    section: str
    key: str
    compute: Callable[[], Tree]
    fast: bool = False
    group: str = ""

    @property
    def unit(self) -> str:
        return self.group or f"{self.section}/{self.key}"


@cache
def examples() -> dict[str, Any]:
    """Return every example of every mechanism, by mechanism name and position."""
    return {
        f"{name}/{place}": one
        for name, kind in sorted(all_mechanisms().items())
        for place, one in enumerate(kind.examples())
    }


# --- Sections: the interface ---


def stripped(text: str) -> str:
    """Return a signature without module names and addresses, because definitions may move."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return re.sub(r"\b(?:[a-z_][a-z_0-9]*\.)+(?=[A-Za-z_])", "", text)


def signature(what: Any) -> str:
    try:
        return stripped(str(inspect.signature(what)))
    except (TypeError, ValueError):
        return type(what).__name__


def members(kind: type) -> dict[str, str]:
    """Return the public methods and properties of a class, except those inherited from a public base class."""
    told = {id(getattr(sdp, name)) for name in sdp.__all__}
    own = [base for base in kind.__mro__ if base is kind or (id(base) not in told and is_ours(base))]
    found = {}
    for name in sorted({key for base in own for key in vars(base) if not key.startswith("_")}):
        what = inspect.getattr_static(kind, name)
        inner = what.__func__ if isinstance(what, classmethod | staticmethod) else what
        found[name] = signature(inner) if inspect.isfunction(inner) else "attribute"
    return found


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "shuffledp"


NAMESPACES = ("", "bounds", "collection", "mechanisms.base", "metric", "spark", "tasks", "testing", "tradeoff")


def namespace_of(name: str) -> Any:
    """Return the module of a public namespace."""
    return importlib.import_module(f"shuffledp.{name}".rstrip("."))


def exported(namespace: Any) -> list[str]:
    """Return the public names of a namespace; its submodules are not part of the interface."""
    names = getattr(namespace, "__all__", None) or [name for name in dir(namespace) if not name.startswith("_")]
    return sorted(name for name in names if namespace is sdp or not inspect.ismodule(getattr(namespace, name)))


def surface_of(name: str) -> Tree:
    namespace = namespace_of(name)
    names = exported(namespace)
    if name == "bounds":
        names = ["BOUNDS", "BOUNDS_BY_NAME", "Bound"]
    told = {one: signature(getattr(namespace, one)) for one in names}
    classes = {one: members(what) for one in names if inspect.isclass(what := getattr(namespace, one))}
    return {"names": told, "classes": classes}


def options_of(command: Any) -> Tree:
    """Return the options and arguments of a command, or of the commands of a group."""
    if hasattr(command, "list_commands"):
        context = command.context_class(command)
        return {name: options_of(command.get_command(context, name)) for name in command.list_commands(context)}
    return {
        "/".join([*one.opts, *one.secondary_opts]): {
            "kind": one.param_type_name,
            "type": stripped(str(one.bare_type)),
            "required": one.required,
            "nargs": one.nargs,
            "default": stripped(repr(one.default)),
            "metavar": one.metavar,
            "flag": getattr(one, "is_flag", False),
        }
        for one in command.params
    }


def surface_cases() -> Iterator[Case]:
    yield Case("surface", "dir", lambda: sorted(dir(sdp)), fast=True, group="surface")
    for name in NAMESPACES:
        yield Case("surface", name or "shuffledp", lambda name=name: surface_of(name), fast=True, group="surface")
    yield Case(
        "surface", "commands", lambda: options_of(typer.main.get_command(command_line)), fast=True, group="surface"
    )
    listed = lambda: [  # noqa: E731
        [one.name, one.guarantees, one.slow, one.never_better_than] for one in sdp.bounds.BOUNDS
    ]
    yield Case("surface", "registered bounds", listed, fast=True, group="surface")


# --- Sections: mechanisms and their privacy ---


def mechanism_facts(one: Any) -> Tree:
    ratio = one.variation_ratio if one.has_table else None
    return {
        "class": type(one).__name__,
        "task": one.task,
        "document": plain(one.to_document()),
        "bits": one.message_bits,
        "bytes": one.message_bytes,
        "messages": plain(one.messages_per_user),
        "local": plain(one.local_epsilon),
        "influence": answer(lambda: one.influence),
        "hiding": answer(lambda: one.hiding_messages(1000)),
        "words tried": plain(one.expected_random_words),
        "ratio": answer(
            lambda: None if ratio is None else [getattr(ratio(), name) for name in ("p", "beta", "q", "q_common")]
        ),
        "tuning": [repr(each) for each in one.tunable],
        "table": answer(lambda: table_hash(one)) if one.has_table else None,
    }


def table_hash(one: Any) -> str:
    """Return a hash of the exact output law."""
    rows = one.table().probabilities
    said = ";".join(",".join(str(Fraction(cell)) for cell in row) for row in rows)
    # A density is evaluated in floats.
    floats = "~" if isinstance(one, sdp.FromDensity | sdp.SentPoint) else ""
    return f"{floats}sha256 {sha256(said.encode())} of {len(rows)} rows"


def mechanism_cases() -> Iterator[Case]:
    for key, one in examples().items():
        yield Case("mechanisms", key, lambda one=one: mechanism_facts(one), fast=key.endswith("/0"))


@cache
def asked(key: str, users: int) -> dict[str, Any]:
    """Return each bound's value for one example, or its refusal."""
    found: dict[str, Any] = {}
    for name in sorted(sdp.bounds.BOUNDS_BY_NAME):
        if name == "all-crowds" and (key, users) in SLOW:
            continue
        try:
            found[name] = sdp.amplify(examples()[key], users, bound=name).epsilon(DELTA)
        except sdp.NotApplicable as refusal:
            found[name] = refusal
    return found


def bounds_of(key: str, users: int) -> Tree:
    """Return ε and slack by every bound that applies, and the best of them with the attack."""
    told: dict[str, Tree] = {
        name: [
            *plain([one.upper, one.slack]),
            *(["not certified"] if not one.certified else []),
            *(["no guarantee"] if not one.guarantee else []),
            *([f"by {one.bound}"] if one.bound != name else []),
        ]
        for name, one in asked(key, users).items()
        if isinstance(one, sdp.BoundValue)
    }
    try:
        quick = sdp.amplify(examples()[key], users, effort="quick")
        told["best, quick"] = bound_value(quick.epsilon(DELTA))
        told["best, quick, at 0.5"] = bound_value(quick.delta(0.5))
        if users == 10 or (users == 1000 and key.removesuffix("/0") in FEW):
            told["best"] = bound_value(sdp.amplify(examples()[key], users).epsilon(DELTA), attacked=False)
    except sdp.NotApplicable:
        told["best"] = None
    return told


def wording_of(key: str, users: int) -> Tree:
    found = asked(key, users)
    refusals = {name: one.reason for name, one in found.items() if isinstance(one, sdp.NotApplicable)}
    notes = {name: one.note for name, one in found.items() if isinstance(one, sdp.BoundValue) and one.note}
    return {"refusals": refusals, "notes": notes}


FEW = ("krr", "oue", "laplace", "pure-dump", "balls-into-bins", "harmony", "privset", "privkv", "cheu-zhilyaev")


def bound_cases() -> Iterator[Case]:
    for users in USERS:
        for key in examples():
            fast = key.endswith("/0") and (users == 10 or (users == 1000 and key.removesuffix("/0") in FEW))
            name, group = f"{key} n={users}", f"bounds {key} {users}"
            yield Case("bounds", name, lambda key=key, users=users: bounds_of(key, users), fast, group)
            if users == 1000 or (users == 10 and key.endswith("/0")):
                yield Case("refusals", name, lambda key=key, users=users: wording_of(key, users), fast, group)


EPSILONS = (0.0, 0.01, 0.1, 0.5, 2.0)


def points_of(curve: Any, *, attacked: bool = False) -> Tree:
    """Return δ at some ε and ε at some δ."""

    def told(ask: Callable[[float], Any], place: float) -> Tree:
        return answer(lambda: bound_value(ask(place), attacked=attacked))

    profile = curve.profile(EPSILONS)
    return {
        "epsilon": {f"{delta:g}": told(curve.epsilon, delta) for delta in (1e-3, 1e-6)},
        "delta": {f"{epsilon:g}": told(curve.delta, epsilon) for epsilon in (0.1, 0.5)},
        "profile": plain([profile.upper, profile.lower]),
        "facts": [curve.users, curve.messages, curve.bound, curve.certified, curve.guarantee],
        "theorem": curve.theorem,
        "note": curve.note,
    }


def subjects() -> dict[str, Any]:
    """Return randomizers of different kinds."""
    return {
        "krr": sdp.KRR(2.0, 16),
        "oue": sdp.OUE(1.0, 64),
        "laplace": sdp.Laplace(1.0),
        "harmony": sdp.Harmony(2.0, 4),
        "pure-dump": sdp.PureDUMP(16, dummies=20),
        "gaussian": sdp.Gaussian(1.0),
        "ldp": sdp.VariationRatio.from_ldp(1.0),
        "parameters": sdp.VariationRatio(4.0, 0.2, 4.0),
        "one-way": sdp.VariationRatio(math.inf, 1.0, 16.0),
        "poisson-dump": sdp.PoissonDUMP(16, 40.0, 900),
        "approximate": sdp.ApproximateLDP(1.0, 1e-9),
        "table": sdp.FromTable([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]),
        "compressed": sdp.Compressed(sdp.RAPPOR(2.0, 16)),
        "split-and-mix": sdp.SplitAndMix(0.01, 100, 1 << 20, 9, 1000),
    }


def sampled(of: str) -> Tree:
    """Return the privacy of samples: of fixed size, by a coin for each user, and with non-response."""
    one, quick = subjects()[of], {"effort": "quick", "bound": "variation-ratio"}
    some = sdp.Participation(users=1000, of=20_000, rounds=3)
    coin = sdp.Participation(of=20_000, rate="5%")

    def at(schedule: Any) -> Tree:
        return answer(lambda: bound_value(schedule.curve(one, **quick).epsilon(DELTA), attacked=False))

    return {
        "some": at(some),
        "some, known": answer(
            lambda: bound_value(some.disclosed_sample_curve(one, **quick).epsilon(DELTA), attacked=False)
        ),
        "coin": at(coin),
        "some, 900 came": at(some.with_respondents(900, DELTA)),
        "coin, 900 came": at(coin.with_respondents(900, DELTA)),
        "documents": plain([some.to_document(), coin.to_document(), some.describe(), coin.describe()]),
    }


EVERY = ("alone", "composed")
"""Cases of every subject; noise without bounds is left out, because it takes long."""
MORE = {"poisson": ("ldp", "krr"), "sampled": ("ldp",), "renyi": ("krr", "ldp", "pure-dump")}
"""Slow cases, with the only subjects for which they are computed."""


def curve_cases() -> Iterator[Case]:
    def quick(name: str, users: int = 1000) -> Any:
        return sdp.amplify(subjects()[name], users, effort="quick")

    derived: dict[str, Callable[[str], Tree]] = {
        "alone": lambda name: points_of(quick(name), attacked=True),
        "colluding": lambda name: points_of(sdp.amplify(subjects()[name], 1000, colluding=100, effort="quick")),
        "composed": lambda name: points_of(sdp.compose(quick(name), 10)),
        "subsampled": lambda name: points_of(sdp.subsample(quick(name), 10_000)),
        "grouped": lambda name: points_of(sdp.group(quick(name), 3)),
        "poisson": lambda name: points_of(sdp.poisson(subjects()[name], 5000, 0.1, bound="variation-ratio")),
        "limit": lambda name: points_of(sdp.gaussian_limit(quick(name))),
        "renyi": lambda name: {
            **{
                f"{order:g}": answer(lambda order=order: sdp.renyi(quick(name)).divergence(order))
                for order in (1.5, 2.0, 32.0)
            },
            "epsilon": answer(lambda: sdp.renyi(quick(name)).epsilon(DELTA)),
        },
        "sampled": sampled,
    }

    def guarded(compute: Callable[[str], Tree], name: str) -> Tree:
        try:
            return compute(name)
        except (ValueError, TypeError, sdp.ShuffledpError) as error:
            return {type(error).__name__: str(error)}

    for name in subjects():
        for what, compute in derived.items():
            if (what in EVERY and name not in ("gaussian", "approximate")) or name in MORE.get(
                what, ("krr", "laplace", "pure-dump", "ldp", "poisson-dump")
            ):
                fast = name in ("krr", "parameters") and what not in MORE
                yield Case("curves", f"{what} {name}", lambda c=compute, n=name: guarded(c, n), fast)
    different = lambda: points_of(sdp.compose([quick("krr"), quick("oue"), quick("krr")]))  # noqa: E731
    yield Case("curves", "composed of different curves", different)
    yield Case("curves", "mixed population", mixed_population)
    for over, at in {"users": [100, 1000], "rounds": [1, 4], "local-epsilon": [0.5, 2.0]}.items():
        yield Case("curves", f"swept over {over}", lambda over=over, at=at: swept(over, at))
    yield Case("curves", "compared", compared, fast=True)
    yield Case("curves", "statement", statement, fast=True)


def mixed_population() -> Tree:
    crowd = sdp.Crowd({sdp.KRR(1.0, 16): 6000, sdp.KRR(3.0, 16): 4000})
    curve = sdp.amplify(crowd, colluding=100, effort="quick")
    return {
        "all": points_of(curve),
        "groups": [answer(lambda one=one: curve.group_curve(one).epsilon(DELTA)) for one, _ in crowd.groups],
    }


def swept(over: str, at: list[float]) -> Tree:
    maker: Any = sdp.KRR(1.0, 4) if over != "local-epsilon" else lambda epsilon: sdp.KRR(epsilon, 4)
    local = 1.0 if over == "local-epsilon" else None
    schedule = sdp.Participation(1000)
    return answer(
        lambda: [list(one) for one in sdp.sweep(maker, schedule, over=over, delta=DELTA, at=at, local=local).points]
    )


def compared() -> Tree:
    found = sdp.compare(sdp.KRR(1.0, 4), 1000, DELTA)
    rows = [[one.bound, one.theorem, one.reason, plain(one.value and bound_value(one.value))] for one in found.rows]
    return {"rows": rows, "lower": plain(found.lower), "text": text_of(str(found))}


def statement() -> Tree:
    one, schedule = sdp.KRR(2.0, 16), sdp.Participation(1000, 5000, rounds=3)
    conditions = sdp.conditions(one, schedule, colluding=10)
    curve = sdp.amplify(one, 1000, effort="quick")
    told = sdp.Statement(curve.epsilon(DELTA), conditions, curve=curve, date="2026-01-31")
    return {"conditions": list(conditions), "markdown": text_of(told.markdown()), "html": text_of(told.html())}


# --- Sections: trade-off functions, calibration, metric privacy ---

RATES = np.array([0.0, 1e-4, 0.01, 0.05, 0.25, 0.5, 0.9, 1.0])


def trade_off_points(function: Any) -> Tree:
    return {
        "fnr": plain(function.fnr(RATES)),
        "tpr": plain(function.tpr(RATES)),
        "advantage": plain(function.advantage()),
        "delta": plain([function.delta(epsilon) for epsilon in EPSILONS]),
        "inverse": answer(lambda: function.inverse().fnr(RATES)),
        "conjugate": answer(lambda: function.conjugate(-2.0)),
        "mu": answer(lambda: mu() if callable(mu := getattr(function, "mu", None)) else mu),
        "renyi": answer(lambda: function.renyi(2.0)),
    }


def risks(curve: Any) -> Tree:
    risk = sdp.AttackRisk(curve)
    found = [risk.advantage(), risk.tpr(1e-3), risk.bayes_risk(0.3), risk.ppv(0.01, 0.1)]
    return [plain([one.value, one.epsilon, one.bound, one.certified, one.guarantee, one.attained]) for one in found]


def trade_offs() -> dict[str, Callable[[], Any]]:
    """Return trade-off functions of all kinds."""
    kinds = sdp.tradeoff
    coins = kinds.PiecewiseTradeOff.from_laws({"a": 0.75, "b": 0.25}, {"a": 0.25, "b": 0.75})
    half, one, two = kinds.GaussianTradeOff(0.5), kinds.GaussianTradeOff(1.0), kinds.GaussianTradeOff(2.0)
    return {
        "coins": lambda: coins,
        "gaussian": lambda: one,
        "points": lambda: kinds.PiecewiseTradeOff.from_error_points([0.0, 0.2, 1.0], [0.9, 0.5, 0.0]),
        "loss": lambda: kinds.PiecewiseTradeOff.from_privacy_loss([-0.5, 0.0, 1.0], [0.2, 0.3, 0.5]),
        "mixed": lambda: kinds.mixed([half, two], [0.9, 0.1]),
        "mixed unequally": lambda: kinds.mixed_unequally([[one, two], [two, one]], [0.75, 0.25], [0.5, 0.5]),
        "exchanged": lambda: kinds.exchanged(two, 0.25),
        "exchanged bound": lambda: kinds.exchanged_bound(two, 0.25),
        "advanced": lambda: kinds.advanced_joint_concavity(((two, one), (one, two)), 0.5),
        "highest": lambda: kinds.highest([one, coins]),
        "lowest": lambda: kinds.lowest([one, coins]),
        "averaged": lambda: kinds.averaged([half, two], [0.5, 0.5]),
        "subsampled": lambda: kinds.subsampled(two, 0.1),
        "guaranteed": lambda: sdp.trade_off(sdp.amplify(sdp.KRR(2.0, 16), 1000, effort="quick"), points=40),
        "precise": lambda: sdp.trade_off(sdp.amplify(sdp.KRR(2.0, 4), 100, effort="quick"), points=20, precise=True),
        "step": lambda: kinds.NoisyStep(kinds.LeastSquares(clip=2.0), 1.0),
    }


def trade_off_cases() -> Iterator[Case]:
    for name, make in trade_offs().items():

        def compute(make: Callable[[], Any] = make) -> Tree:
            try:
                return trade_off_points(make())
            except (ValueError, TypeError, sdp.ShuffledpError) as error:
                return {type(error).__name__: str(error)}

        yield Case("tradeoff", name, compute, fast=name in ("coins", "gaussian", "mixed", "guaranteed"))
    for name in ("krr", "laplace", "pure-dump", "ldp"):
        yield Case(
            "tradeoff", f"risks {name}", lambda name=name: risks(sdp.amplify(subjects()[name], 1000, effort="quick"))
        )
    yield Case("tradeoff", "divergences", divergences, fast=True)
    back = lambda: points_of(sdp.privacy_curve(sdp.tradeoff.GaussianTradeOff(1.0)))  # noqa: E731
    yield Case("tradeoff", "privacy curve", back, fast=True)


def divergences() -> Tree:
    coins = sdp.tradeoff.PiecewiseTradeOff.from_laws({"a": 0.75, "b": 0.25}, {"a": 0.25, "b": 0.75})
    told = {
        kind: answer(lambda kind=kind: sdp.divergence(coins, kind)) for kind in ("kl", "chi-square", "total-variation")
    }
    orders = {f"renyi {order}": answer(lambda order=order: sdp.divergence(coins, "renyi", order)) for order in (2, 16)}
    curve = sdp.amplify(sdp.KRR(2.0, 16), 1000, effort="quick")
    own = sdp.tradeoff.f_divergence(coins, lambda s: (np.sqrt(s) - 1) ** 2, at_zero=1.0, growth=1.0)
    return told | orders | {"own": plain(own), "of a curve": answer(lambda: sdp.divergence(curve, "kl"))}


def calibrated(ask: Callable[[], Any]) -> Tree:
    try:
        found = ask()
    except (ValueError, TypeError, sdp.ShuffledpError) as error:
        return {type(error).__name__: str(error)}
    made = getattr(found.mechanism, "to_document", None)
    return {
        "setting": found.setting,
        "value": plain(found.value),
        "limit": found.limit,
        "users": found.users,
        "mechanism": plain(made()) if made else None,
        "text": text_of(str(found)),
    }


def calibration_cases() -> Iterator[Case]:
    target = {"epsilon": 0.5, "delta": DELTA}
    one = {"users": 2000, "effort": "quick"}
    asked: dict[str, Callable[[], Any]] = {
        "krr": lambda: sdp.calibrate(sdp.KRR, options=4, **one, **target),
        "krr rounds": lambda: sdp.calibrate(sdp.KRR, options=4, rounds=5, **one, **target),
        "krr sampled": lambda: sdp.calibrate(sdp.KRR, options=4, of=20_000, **one, **target),
        "krr users": lambda: sdp.calibrate(sdp.KRR(2.0, 16), find="users", effort="quick", **target),
        "krr number of rounds": lambda: sdp.calibrate(sdp.KRR(1.0, 16), find="rounds", **one, **target),
        "krr advantage": lambda: sdp.calibrate(sdp.KRR(2.0, 16), find="users", target=sdp.RiskTarget(advantage=0.1)),
        "krr tpr": lambda: sdp.calibrate(sdp.KRR, options=4, target=sdp.RiskTarget(tpr=0.002, fpr=0.001), **one),
        "laplace": lambda: sdp.calibrate(sdp.Laplace, **one, **target),
        "pure-dump": lambda: sdp.calibrate(sdp.PureDUMP, options=16, **one, **target),
        "poisson-dump": lambda: sdp.calibrate(sdp.PoissonDUMP, options=16, honest=2000, **one, **target),
        "balls-into-bins": lambda: sdp.calibrate(sdp.BallsIntoBins, options=16, bins=31, **one, **target),
        "full": lambda: sdp.calibrate(sdp.KRR, options=4, users=200, **target),
    }
    for key, ask in asked.items():
        yield Case("calibration", key, lambda ask=ask: calibrated(ask), fast=key in ("krr", "krr users", "pure-dump"))


AMPLIFICATIONS = (
    "theorem-1",
    "corollary-1",
    "corollary-2",
    "corollary-2-uniform",
    "clone",
    "variation-ratio",
    "all-crowds",
)


def places() -> Any:
    return sdp.metric.DistanceMatrix.from_points([[0.0], [0.5], [2.0]])


def metric_cases() -> Iterator[Case]:
    for name in AMPLIFICATIONS:

        def compute(name: str = name) -> Tree:
            amplified = sdp.metric.AmplifiedMetric(places(), 1000, DELTA, sdp.metric.find_amplification(name))
            return {f"{a}-{b}": answer(lambda a=a, b=b: amplified(a, b)) for a, b in ((0, 1), (0, 2), (1, 2))}

        yield Case("metric", name, compute, fast=name != "all-crowds")
    for name, made, pairs in (
        ("laplace", sdp.Laplace(2.0), ((0.0, 0.25), (0.1, 0.9))),
        ("planar-laplace", sdp.PlanarLaplace(8.0), (((0.1, 0.2), (0.3, 0.3)),)),
        ("exponential", sdp.Exponential(places().matrix), ((0, 1), (0, 2))),
        ("padded-exponential", sdp.PaddedExponential(places().matrix), ((0, 1), (0, 2))),
        ("witch-hat", sdp.WitchHat(2.0), ((0.0, 0.25),)),
    ):

        def of_pairs(made: Any = made, pairs: Any = pairs) -> Tree:
            metric = sdp.metric.MechanismMetric(made, 1000, DELTA)
            return {str(pair): answer(lambda pair=pair: metric(*pair)) for pair in pairs}

        def within(made: Any = made) -> Tree:
            return answer(lambda: sdp.amplify(made, 1000, diameter=0.5, effort="quick").epsilon(DELTA))

        yield Case("metric", f"{name} pairs", of_pairs)
        yield Case("metric", f"{name} diameter", within)
    below = lambda: plain([sdp.metric.lower_bound(places(), *pair, 1000, DELTA) for pair in ((0, 1), (1, 2))])  # noqa: E731
    yield Case("metric", "lower bound", below, fast=True)
    yield Case("metric", "solver", solved)


def solved() -> Tree:
    target = sdp.metric.DistanceMatrix.from_points([[0.0], [0.1], [0.3]])
    told = {}
    for bound in ("corollary-1", "variation-ratio"):

        def solve(bound: str = bound) -> list[Any]:
            solver = sdp.metric.LocalMetricSolver(target, 10_000, DELTA, sdp.metric.find_amplification(bound))
            return [[one.diameter, one.metric.matrix, one.amplified] for one in solver.solve(diameters=2)]

        told[bound] = answer(solve)
    return told


# --- Section: messages and estimates ---


def messages_of(one: Any, source: Any) -> Tree:
    """Return the messages of the probe values, repeated fifty times, and the estimates from them."""
    values = np.concatenate([one.audit_pair()] * 50)
    messages = one.encode(values, source)
    rows = one.pack(messages)
    estimate = one.estimate(messages, users=len(values))
    low, high = estimate.interval(0.9)
    return {
        "shape": list(rows.shape),
        "head": rows[:2].tobytes()[:32].hex(),
        "bytes": f"sha256 {digest(np.ascontiguousarray(rows))}",
        "back": bool(np.array_equal(one.pack(one.unpack(rows)), rows)),
        "valid": bool(one.valid(rows).all()),
        "estimate": plain(estimate.value),
        "variance": plain(estimate.variance),
        "low": plain(low),
        "high": plain(high),
        "truth": plain(one.truth(values)),
        "exact variance": answer(lambda: one.variance(values)),
    }


def wire_cases() -> Iterator[Case]:
    for key, one in examples().items():

        def compute(one: Any = one) -> Tree:
            return {
                "seed": messages_of(one, np.random.default_rng(5)),
                "key": messages_of(one, KeyedSource(KEY, 7)),
                "shuffler": shufflers_part(one),
            }

        yield Case("wire", key, compute, fast=key.endswith("/0"))


def shufflers_part(one: Any) -> Tree:
    drawn = one.draw_shuffler_messages(KeyedSource(KEY, 8))
    return None if drawn is None else array(one.pack(drawn))


# --- Section: plans ---


def tasks() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return a task of every kind, with further arguments of its plan."""
    kinds = sdp.tasks
    return {
        "frequency": (kinds.Frequency(8), {}),
        "frequency, labels": (kinds.Frequency(["red", "green", "blue"]), {"minimum": 4000, "colluding": 100}),
        "frequency, rounds": (kinds.Frequency(8), {"rounds": 3, "mechanism": "krr"}),
        "frequency, sampled": (kinds.Frequency(8), {"of": 50_000, "mechanism": "krr"}),
        "frequency, noise": (kinds.Frequency(8), {"rests_on": "shuffler-noise"}),
        "frequency, limits": (kinds.Frequency(64), {"max_bits": 64, "max_messages": 1, "local_epsilon_at_most": 3.0}),
        "frequency, full": (kinds.Frequency(4), {"mechanism": "krr", "effort": "full"}),
        "mean": (kinds.Mean(0, 5), {}),
        "sum": (kinds.Sum(0, 5), {}),
        "count": (kinds.Count(), {}),
        "variance": (kinds.Variance(0, 5), {}),
        "set-valued": (kinds.ItemSets(8, 2), {}),
        "key-value": (kinds.KeyValue(5, 0, 5, items=2), {}),
        "vector": (kinds.VectorMean(3, -1, 1), {}),
        "unit vector": (kinds.UnitVectorMean(8), {}),
        "location": (kinds.Location(0, 2, 0, 1, 4), {}),
        "ranges": (kinds.Ranges(12), {}),
        "over time": (kinds.OverTime(12), {"rests_on": "shuffler"}),
        "heavy hitters": (kinds.HeavyHitters(bits=16), {"rests_on": "shuffler"}),
        "heavy hitters at once": (kinds.HittersAtOnce(bits=16), {"rests_on": "shuffler"}),
        "survey": (kinds.Survey([("a", kinds.Frequency(3)), ("b", kinds.Mean(0, 9))]), {}),
        "marginals": (kinds.Marginals({"a": ["x", "y"], "b": ["u", "v", "w"]}, ways=2), {}),
    }


def ranked(task: Any, **goal: Any) -> Tree:
    with reproducible():
        ranking = sdp.plan(task, 5000, 1.0, DELTA, **goal)
        offers = [
            {
                "name": one.name,
                "document": plain(one.mechanism.to_document()),
                "error": plain(one.standard_error),
                "proof": bound_value(one.proof, attacked=False),
                "bits": one.bits,
                "messages": plain(one.messages),
                "sealed": one.sealed_bits,
                "influence": plain(one.influence),
                "limit": one.limit,
                "times curator": plain(one.curator_error_ratio),
                "rests on": one.rests_on,
                "fingerprint": one.plan.fingerprint,
            }
            for one in ranking.candidates
        ]
        named = {name: name for name in ("best_local", "best_by_shuffler", "best_by_noise")}
        named |= {"chosen": "selected_candidate"}
        best = ranking.candidates[0].plan if ranking.selected_candidate is None else ranking.best.plan
        return {
            "offers": offers,
            "refusals": [[one.name, one.reason] for one in ranking.rejections],
            "winners": {key: (one := getattr(ranking, name)) and one.name for key, name in named.items()},
            "plan": document(best.text()),
            "text": text_of(str(ranking)),
            "simulated": simulated(best),
        }


def simulated(plan: Any) -> Tree:
    found = sdp.simulate(plan, repeats=5, seed=3)
    if isinstance(found, sdp.SearchOutcome):
        searches = [
            [one.heavy, one.recalled, one.shown, one.whole, plain(np.asarray(one.true_counts)), one.covering_intervals]
            for one in found.searches
        ]
        return {"searches": searches, "promised": plain(found.promised)}
    return plain(
        [
            found.requested_users,
            found.users,
            found.repeats,
            found.expected,
            found.simulated_error,
            found.covered,
            found.exact,
            found.estimates,
        ]
    )


def plan_cases() -> Iterator[Case]:
    for key, (task, goal) in tasks().items():

        def compute(task: Any = task, goal: dict[str, Any] = goal) -> Tree:
            try:
                return ranked(task, **goal)
            except (ValueError, TypeError, sdp.ShuffledpError) as error:
                return {type(error).__name__: str(error)}

        yield Case("plans", key, compute, fast=key in ("frequency, rounds", "frequency, full"))


# --- Section: certificates ---


def certified(one: Any, **asked: Any) -> Tree:
    try:
        claim = sdp.certify(one, **asked)
    except (ValueError, TypeError, sdp.ShuffledpError) as error:
        return {type(error).__name__: str(error)}
    claim = dataclasses.replace(claim, software={"shuffledp": claim.software["shuffledp"]})
    false = dataclasses.replace(claim, epsilon=claim.epsilon / 2, delta=claim.delta / 2)
    findings = [sdp.verify(claim), sdp.verify(false)]
    return {
        "claim": document(claim.text()),
        "verified": [[one.verdict.value, one.reason, one.method] for one in findings],
        "text": text_of(str(claim)),
    }


def certificate_cases() -> Iterator[Case]:
    for name in subjects():
        yield Case(
            "certificates",
            name,
            lambda name=name: certified(subjects()[name], users=1000, delta=DELTA, effort="quick"),
            fast=name in ("krr", "ldp", "one-way"),
        )
    others: dict[str, tuple[Any, dict[str, Any]]] = {
        "krr, epsilon": (sdp.KRR(2.0, 16), {"users": 1000, "epsilon": 0.5}),
        "krr, sampled": (sdp.KRR(2.0, 16), {"users": 1000, "of": 20_000, "rounds": 12, "delta": DELTA}),
        "krr, rate": (sdp.KRR(2.0, 16), {"of": 20_000, "rate": "5%", "delta": DELTA}),
        "krr, rounds": (sdp.KRR(2.0, 16), {"users": 1000, "rounds": 5, "delta": DELTA}),
        "krr, colluding": (sdp.KRR(2.0, 16), {"users": 1000, "colluding": 50, "delta": DELTA}),
        "laplace, pair": (sdp.Laplace(2.0), {"users": 1000, "pair": (0.0, 0.25), "delta": DELTA}),
        "stronger clone": (sdp.KRR(2.0, 16), {"users": 1000, "bound": "stronger-clone", "delta": DELTA}),
        "balls-into-bins": (sdp.BallsIntoBins(8, 7, 10), {"users": 1000, "delta": DELTA}),
        "cheu-zhilyaev": (sdp.CheuZhilyaev(8, 0.1, 2), {"users": 1000, "delta": DELTA}),
        "all-answered": (sdp.AllAnswered([sdp.KRR(1.0, 4), sdp.Laplace(1.0)]), {"users": 1000, "delta": DELTA}),
        "parallel": (sdp.Parallel([sdp.KRR(1.0, 4), sdp.OUE(1.0, 4)]), {"users": 1000, "delta": DELTA}),
        "cancelling-noise": (examples()["cancelling-noise/0"], {"users": 1000, "delta": 0.1}),
        "worst dataset": (sdp.KRR(2.0, 3), {"users": 100, "delta": DELTA, "bound": "all-crowds", "effort": "full"}),
        "exact binary": (sdp.KRR(1.0, 2), {"users": 1000, "delta": DELTA, "bound": "exact-binary"}),
    }
    for key, (one, asked) in others.items():
        wanted = {"effort": "quick"} | asked
        yield Case("certificates", key, lambda one=one, wanted=wanted: certified(one, **wanted))


# --- Section: collections and ledgers ---

PEOPLE = 600
KEYS = ("ATL", "BOS", "LAX")
DAYS = tuple(str(np.datetime64("2026-01-01") + day) for day in range(20))


def collected_tasks() -> dict[str, tuple[Any, Any, Callable[[Any], Any], Any, dict[str, Any]]]:
    """Return for every task a mechanism, data, columns and changes to the plan."""
    t, n = sdp.tasks, PEOPLE

    def one(draw: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda rng: pa.table({"value": draw(rng)})

    def pairs(rng: Any) -> list[str]:
        return [
            f"{a}:{rng.uniform(0, 5):.2f};{b}:1.5" for a, b in (rng.choice(KEYS, 2, replace=False) for _ in range(n))
        ]

    def table(rng: Any) -> Any:
        return pa.table(
            {"sex": rng.choice(["f", "m"], n), "age": rng.uniform(20, 60, n), "hour": rng.integers(0, 24, n)}
        )

    hours = tuple(map(str, range(24)))
    cities = ("Zürich", "東京", "=a|b <i>")
    return {
        "frequency": (t.Frequency(cities), sdp.KRR(3.0, 3), one(lambda rng: rng.choice(cities, n)), "value", {}),
        "dummies": (t.Frequency(24), sdp.PureDUMP(24, 10), one(lambda rng: rng.integers(0, 24, n)), "value", {}),
        "sampled": (
            t.Frequency(24),
            sdp.KRR(3.0, 24),
            one(lambda rng: rng.integers(0, 24, n)),
            "value",
            {"users": 300, "out_of": n},
        ),
        "sets": (
            t.ItemSets(KEYS, 2),
            sdp.PrivSet(3.0, 5, 2),
            one(lambda rng: [list(rng.choice(KEYS, 2, replace=False)) for _ in range(n)]),
            "value",
            {},
        ),
        "pairs": (t.KeyValue(KEYS, 0, 5, items=2), sdp.PCKV(5.0, 3, 2), one(pairs), "value", {}),
        "mean": (t.Mean(0, 100), sdp.Laplace(3.0), one(lambda rng: rng.uniform(20, 60, n)), "value", {}),
        "sum": (t.Sum(0, 100), sdp.Laplace(3.0), one(lambda rng: rng.uniform(20, 60, n)), "value", {}),
        "count": (t.Count(), sdp.Laplace(3.0), one(lambda rng: rng.random(n) < 0.3), "value", {}),
        "variance": (t.Variance(0, 100), sdp.Harmony(3.0, 2), one(lambda rng: rng.uniform(20, 60, n)), "value", {}),
        "vector": (
            t.VectorMean(2, -1, 1),
            sdp.Harmony(3.0, 2),
            lambda rng: pa.table({"x": rng.uniform(-1, 1, n), "y": rng.uniform(-1, 1, n)}),
            ("x", "y"),
            {},
        ),
        "map": (
            t.Location(0, 10, 40, 50, 3, 3, "degrees"),
            sdp.KRR(3.0, 9),
            lambda rng: pa.table({"lat": rng.uniform(40, 50, n), "lon": rng.uniform(0, 5, n)}),
            ("lat", "lon"),
            {},
        ),
        "ranges": (t.Ranges(64), sdp.RangeTree(64, 40.0, n), one(lambda rng: rng.integers(0, 40, n)), "value", {}),
        "time": (t.OverTime(DAYS), sdp.RangeTree(20, 40.0, 0), one(lambda rng: rng.choice(DAYS, n)), "value", {}),
        "search": (
            t.HeavyHitters(bits=8, room=64, keep=30.0, show=40.0, rounds=2),
            sdp.PoissonDUMP(64, 40.0, n),
            one(lambda rng: np.where(rng.random(n) < 0.5, 77, rng.integers(0, 256, n))),
            "value",
            {"rounds": 2},
        ),
        "survey": (
            t.Survey([("sex", t.Frequency(["f", "m"])), ("age", t.Mean(0, 120)), ("hour", t.Frequency(hours))]),
            sdp.AllAnswered([sdp.KRR(3.0, 2), sdp.Laplace(3.0), sdp.KRR(3.0, 24)]),
            table,
            None,
            {},
        ),
        "marginals": (
            t.Marginals({"sex": ["f", "m"], "hour": hours}, ways=2),
            sdp.AllAnswered([sdp.OUE(4.0, 48)]),
            table,
            None,
            {},
        ),
    }


def plan_of(key: str) -> tuple[Any, Any, Any]:
    """Return the plan of one of these tasks, its data and its columns."""
    task, mechanism, draw, columns, changes = collected_tasks()[key]
    settings = {"users": PEOPLE, "epsilon": 500.0, "delta": 1e-3} | changes
    return sdp.Plan(task, mechanism, **settings), draw(np.random.default_rng(1)), columns


def files_in(room: Path, folder: str) -> Tree:
    """Return every file below a folder: JSON by its fields, texts by their lines, others by a hash."""
    told: dict[str, Tree] = {}
    for path in sorted((room / folder).rglob("*")):
        if path.is_dir():
            continue
        name, content = path.relative_to(room / folder).as_posix(), path.read_bytes()
        if path.suffix in (".json", ".md", ".csv", ".html", ".txt"):
            text = without_versions(content.decode().replace(str(room), "ROOM"))
            told[name] = document(text) if path.suffix == ".json" else text_of(text)
        else:
            told[name] = f"~sha256 {sha256(content)} of {len(content)} bytes"
    return told


VERSIONS = re.compile(r'("?(?:python-flint|numpy|python|pyarrow)"?:? )"?\d[\w.+]*"?')


def without_versions(text: str) -> str:
    """Return a document without the versions of other installed packages."""
    return VERSIONS.sub(r'\1"…"', text)


def collected(key: str, **asked: Any) -> Tree:
    plan, data, columns = plan_of(key)
    with reproducible() as room:
        ledger = sdp.collection.Ledger.create(room / "ledger.sqlite")
        ledger.set_budget("everyone", 2000.0, 1e-3)
        try:
            report = sdp.collect(plan, data, columns, out="out", ledger=ledger.path, allow_weaker=True, **asked)
        except (ValueError, TypeError, sdp.ShuffledpError) as error:
            return {type(error).__name__: str(error)}
        (standing,) = ledger.budget_statuses("everyone")
        return {
            "files": files_in(room, "out"),
            "text": text_of(str(report)),
            "ledger": plain(standing.document()),
        }


def roles() -> Tree:
    """Return the files that encoder, shuffler and estimator write one after the other."""
    plan, data, columns = plan_of("frequency")
    with reproducible() as room:
        half = [data.slice(0, 300), data.slice(300)]
        sent = (
            [sdp.collection.encode(plan, one, columns, out=f"in/{place}.messages") for place, one in enumerate(half)]
            if (room / "in").mkdir() is None
            else []
        )
        shuffled = sdp.collection.shuffle(["in/0.messages", "in/1.messages"], out="shuffled", plan=plan)
        report = sdp.collection.estimate(plan, "shuffled", out="out", allow_weaker=True)
        files = {name: files_in(room, name) for name in ("in", "out")}
        mixed = room / "shuffled"
        files["shuffled"] = files_in(room, "shuffled") if mixed.is_dir() else plain(mixed.read_bytes())
        return {"counts": [*sent, shuffled], "files": files, "text": text_of(str(report))}


def asked_ranges() -> Tree:
    plan, data, columns = plan_of("ranges")
    with reproducible():
        sdp.collect(plan, data, columns, out="out", allow_weaker=True)
        found = sdp.ask("out", ranges=[(0, 9), (10, 40)], quantiles=[0.25, 0.5], confidence=0.9)
        return [plain(dataclasses.asdict(one)) for one in found]


def previewed() -> Tree:
    return {
        "texts": text_of(str(sdp.collection.preview(pa.array(["red", "green", "red", "green", "blue"])))),
        "numbers": text_of(str(sdp.collection.preview(pa.array([20.0, 64.0, 31.0]), task="mean"))),
    }


def collection_cases() -> Iterator[Case]:
    for key in collected_tasks():
        yield Case("collections", key, lambda key=key: collected(key), fast=key in ("frequency", "mean"))
    adjusted = lambda: collected("frequency", post="consistent", confidence=0.9)  # noqa: E731
    yield Case("collections", "frequency, post-processed", adjusted)
    yield Case("collections", "roles", roles, fast=True)
    yield Case("collections", "ask", asked_ranges)
    yield Case("collections", "preview", previewed, fast=True)


# --- Section: the command line ---

KRR = "--mechanism krr --epsilon-local 2 --set options=16"
TARGET = "--users 20000 --epsilon 1 --delta 1e-6"
COMMANDS: dict[str, tuple[str, ...]] = {
    "amplify": (
        f"amplify {KRR} --users 1000 --delta 1e-6",
        f"amplify {KRR} --users 1000 --epsilon 0.5",
        "amplify --epsilon-local 2 --users 100000 --epsilon 0.05",
        "amplify --p inf --beta 1 --q 16 --users 60001 --delta 1e-7",
        "amplify --p 4 --beta 0.2 --q 4 --users 1000 --delta 1e-6 --bound variation-ratio-published",
        f"amplify {KRR} --users 1000 --delta 1e-6 --rounds 10",
        f"amplify {KRR} --users 1000 --of 50000 --rounds 4 --delta 1e-8 --bound optimal",
        f"amplify {KRR} --of 50000 --rate 2% --delta 1e-8 --bound optimal",
        "amplify --mechanism laplace --epsilon-local 2 --pair 0 --pair 0.1 --users 10000 --delta 1e-6",
        "amplify --epsilon-local 1 --delta-local 1e-9 --users 10000 --delta 1e-6",
        "amplify --mechanism compressed-rappor --epsilon-local 2 --set options=16 --users 1000 --delta 1e-6",
        "amplify --mechanism planar-laplace --epsilon-local 8 --users 1000 --delta 1e-7 --pair [0,0] --pair [0.3,0.3]",
        f"amplify {KRR} --users 1000 --delta 1e-6 --colluding 1000",
    ),
    "compare": (f"compare {KRR} --users 1000 --delta 1e-6",),
    "crowd": ("crowd --mechanism krr --set options=16 --group 1:6000 --group 3:4000 --delta 1e-6 --effort quick",),
    "calibrate": (
        "calibrate --mechanism pure-dump --set options=64 --users 10000 --epsilon 0.2 --delta 1e-6",
        "calibrate --mechanism krr --set options=16 --users 1000 --epsilon 0.5 --delta 1e-6 --effort quick",
    ),
    "tradeoff": (f"tradeoff {KRR} --users 1000", "tradeoff --users 1e4 --advantage 0.01"),
    "mechanisms": ("mechanisms", "mechanisms krr", "mechanisms --task frequency"),
    "plan": (
        f"plan --task frequency --domain 8 --mechanism krr {TARGET} --out plan.json",
        f"plan --task mean --low 0 --high 5 --mechanism piecewise {TARGET} --out mean.json",
        f"plan --task set-valued --domain 8 --items 2 --mechanism privset {TARGET}",
        f"plan --task key-value --domain 5 --items 2 --low 0 --high 5 --mechanism pckv {TARGET}",
        f"plan --task range-queries --domain 12 --mechanism range-queries {TARGET}",
        f"plan --task frequency --domain 8 --mechanism kr {TARGET}",
    ),
    "simulate": (
        f"plan --task frequency --domain 8 --mechanism krr {TARGET} --out plan.json",
        "simulate plan.json --users 1e6 --repeat 20",
    ),
    "collect": (
        "plan --task frequency --domain 4 --mechanism krr --users 500 --epsilon 3 --delta 1e-5 --out plan.json",
        "ledger create",
        "ledger register test",
        "ledger budget everyone --epsilon 8 --delta 1e-4",
        "collect plan.json --input data.csv --column choice --out result",
        "ledger show",
        "ledger check",
        "verify result/certificate.json",
        "encode plan.json --input data.csv --column choice --out a.messages",
        "shuffle a.messages --out shuffled",
        "estimate plan.json --input shuffled --no-ledger --out again",
    ),
    "verify": (f"amplify {KRR} --users 1000 --delta 1e-6 --certificate claim.json", "verify claim.json"),
    "metric": (
        "metric amplify --users 1e4 --delta 1e-7 --matrix distances.csv",
        "metric compare --users 1e4 --delta 1e-7 --matrix distances.csv --pair 0 1",
        "metric lower --users 1e4 --delta 1e-7 --matrix distances.csv",
        "metric solve --users 1e4 --delta 1e-6 --matrix distances.csv --bound corollary-1",
        "amplify --mechanism padded-exponential --set distances=distances.csv --users 99 --delta .01 --pair 0 --pair 1",
    ),
}
"""Commands that are run one after the other in one folder, each with --json if it takes that option.

Some are from docs/reference/commands.md; two are wrong, to record their errors.
"""
REFERENCE = (
    "amplify --mechanism krr --epsilon-local 2 --set options=128 --users 100000 --delta 1e-8",
    "compare --mechanism laplace --epsilon-local 1 --users 10000 --delta 1e-6",
    "amplify --epsilon-local 2 --users 100000 --delta 1e-8",
    "amplify --mechanism krr --epsilon-local 2 --set options=128 --users 100000 --delta 1e-8 --rounds 100",
    "tradeoff --epsilon-local 1 --users 10000",
    "amplify --mechanism krr --epsilon-local 2 --set options=128 --users 100000 --of 5000000 --rounds 52 --delta 1e-8",
    "crowd --mechanism krr --set options=16 --group 1:60000 --group 3:40000 --delta 1e-6",
    "amplify --mechanism gaussian --set multiplier=2 --users 10000 --delta 1e-6",
)
"""The commands of docs/reference/commands.md that are not among those above; ``audit`` is random and left out."""
WITHOUT_JSON = ("ledger create", "ledger register", "ledger budget", "encode", "shuffle")


def run(words: Sequence[str]) -> tuple[int, str, str]:
    """Run the command line in this process."""
    out, err, status = io.StringIO(), io.StringIO(), None
    with (
        mock.patch.object(sys, "argv", ["shuffledp", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            run_command_line()
        except SystemExit as end:
            status = end.code
    return int(status or 0), out.getvalue(), err.getvalue()


def ran(lines: Sequence[str]) -> Tree:
    with reproducible() as room:
        rows = "\n".join(str(place * 7 % 11 % 4) for place in range(500))
        (room / "data.csv").write_text(f"choice\n{rows}\n")
        (room / "distances.csv").write_text("0,0.5,1\n0.5,0,0.75\n1,0.75,0\n")
        told = {}
        for line in lines:
            more = [] if line.startswith(WITHOUT_JSON) else ["--json"]
            status, out, err = (
                one if isinstance(one, int) else without_versions(one.replace(str(room), "ROOM"))
                for one in run([*line.split(), *more])
            )
            told[line] = {
                "status": status,
                "err": err.splitlines(),
                "out": document(out) if out.startswith(("{", "[")) else text_of(out),
            }
        return told


def command_cases() -> Iterator[Case]:
    for line in REFERENCE:
        yield Case("commands", line, lambda line=line: ran([line]))
    for key, lines in COMMANDS.items():
        if key in ("amplify", "plan"):
            for line in lines:
                yield Case("commands", line, lambda line=line: ran([line]), fast="variation-ratio-published" in line)
        else:
            yield Case("commands", key, lambda lines=lines: ran(lines), fast=key in ("mechanisms", "verify"))


# --- Comparison ---

SECTIONS: dict[str, Callable[[], Iterator[Case]]] = {
    "surface": surface_cases,
    "mechanisms": mechanism_cases,
    "bounds": bound_cases,
    "curves": curve_cases,
    "tradeoff": trade_off_cases,
    "calibration": calibration_cases,
    "metric": metric_cases,
    "wire": wire_cases,
    "plans": plan_cases,
    "certificates": certificate_cases,
    "collections": collection_cases,
    "commands": command_cases,
}
FILES = sorted([*SECTIONS, "refusals"])


@cache
def all_cases() -> tuple[Case, ...]:
    return tuple(case for cases in SECTIONS.values() for case in cases())


def units(only: Sequence[str], fast: bool) -> dict[str, list[Case]]:
    """Return the selected cases by their unit of work."""
    found: dict[str, list[Case]] = {}
    for case in all_cases():
        if case.section in only and (case.fast or not fast):
            found.setdefault(case.unit, []).append(case)
    return found


def work(only: Sequence[str], fast: bool, unit: str) -> tuple[list[tuple[str, str, Tree]], float]:
    """Compute one unit; an exception is recorded as its result."""
    begun = time.process_time()
    told = []
    for case in units_of(tuple(only), fast)[unit]:
        try:
            found = case.compute()
        except Exception as error:
            found = {"raised": f"{type(error).__name__}: {error}"}
        told.append((case.section, case.key, json.loads(json.dumps(found))))
    asked.cache_clear()
    return told, time.process_time() - begun


units_of = cache(units)


def computed(only: Sequence[str], fast: bool, jobs: int, times: bool = False) -> dict[str, dict[str, Tree]]:
    """Compute all results of the package as it is now, by section and key."""
    found: dict[str, dict[str, Tree]] = {section: {} for section in only}
    waiting = list(units_of(tuple(only), fast))
    with contextlib.ExitStack() as stack:
        if jobs > 1:
            pool = stack.enter_context(ProcessPoolExecutor(jobs, mp_context=get_context("spawn")))
            results: Any = pool.map(work, *zip(*((only, fast, unit) for unit in waiting), strict=True))
        else:
            results = (work(only, fast, unit) for unit in waiting)
        for unit, (told, seconds) in zip(waiting, results, strict=True):
            if times:
                print(f"{seconds:8.2f} s  {unit}", file=sys.stderr, flush=True)
            for section, key, tree in told:
                found[section][key] = tree
    return found


def differences(expected: Tree, got: Tree, where: str, close: bool) -> Iterator[tuple[str, Tree, Tree]]:
    """Yield the place of each difference with both sides; ``close`` permits differences between machines."""
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in [*expected, *(key for key in got if key not in expected)]:
            yield from differences(expected.get(key, MISSING), got.get(key, MISSING), f"{where} > {key}", close)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for place, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{where} > {place}", close)
    elif type(expected) is not type(got) or (expected != got and not (close and alike(expected, got))):
        yield where, expected, got


MISSING = "(nothing)"
DIGEST = re.compile(r"[0-9a-f]{64}")
"""A hash within a document, such as the fingerprint of a plan, which depends on floats."""
HEXADECIMAL = re.compile(r"-?0x[01]\.[0-9a-f]+p[+-]\d+")


def alike(expected: Tree, got: Tree) -> bool:
    """Return True if two values may come from the same code on two machines."""
    if not isinstance(expected, str):
        return False
    if expected.startswith("~") or (DIGEST.fullmatch(expected) and DIGEST.fullmatch(got)):
        return True
    if HEXADECIMAL.fullmatch(expected) and HEXADECIMAL.fullmatch(got):
        one, other = float.fromhex(expected), float.fromhex(got)
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return False


def environment() -> dict[str, str]:
    """Return everything that floating-point results may depend on besides this package."""
    found = {name: version(name) for name in ("numpy", "scipy", "python-flint", "pyarrow", "cryptography", "typer")}
    simd = np.show_config(mode="dicts")["SIMD Extensions"]["found"]  # type: ignore[index]
    return found | {
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "simd": " ".join(simd),
    }


def stored(section: str, folder: Path = FOLDER) -> dict[str, Tree]:
    path = folder / f"{section}.json"
    found: dict[str, Tree] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def write(found: Mapping[str, dict[str, Tree]], folder: Path = FOLDER) -> None:
    """Store sections with one sorted entry per line, so that a difference is one line."""
    folder.mkdir(parents=True, exist_ok=True)
    for section, entries in [*found.items(), ("environment", environment())]:
        lines = [
            f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(entries[key], ensure_ascii=False)}"
            for key in sorted(entries)
        ]
        (folder / f"{section}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def compare(found: Mapping[str, dict[str, Tree]], fast: bool, folder: Path = FOLDER) -> list[tuple[str, Tree, Tree]]:
    """Return every difference from the stored results."""
    close = stored("environment", folder) != environment()
    result: list[tuple[str, Tree, Tree]] = []
    for section, entries in found.items():
        expected = stored(section, folder)
        known = {case.key for case in all_cases() if case.section == section}
        if fast:
            expected = {key: tree for key, tree in expected.items() if key in entries or key not in known}
        result += differences(expected, entries, section, close)
    return result


def shown(tree: Tree) -> str:
    text = json.dumps(tree, ensure_ascii=False)
    if HEXADECIMAL.fullmatch(str(tree)):
        text += f" = {float.fromhex(tree)!r}"
    return text if len(text) <= 300 else f"{text[:300]}…"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="store what the package gives now")
    parser.add_argument("--fast", action="store_true", help="the cheap part only")
    parser.add_argument("--only", nargs="+", choices=FILES, default=FILES, metavar="SECTION", help=", ".join(FILES))
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--times", action="store_true", help="print the processor time of each entry")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are")
    given = parser.parse_args(words)
    if given.write and given.fast:
        parser.error("--write stores everything; leave out --fast")
    found = computed(given.only, given.fast, given.jobs, given.times)
    if given.write:
        write(found, given.folder)
        raised = [
            f"{section} > {key}: {tree['raised']}"
            for section, entries in found.items()
            for key, tree in entries.items()
            if isinstance(tree, dict) and "raised" in tree
        ]
        print(*raised, sep="\n")
        return 1 if raised else 0
    result = compare(found, given.fast, given.folder)
    for where, expected, got in result:
        print(f"{where}\n  expected {shown(expected)}\n  got      {shown(got)}")
    count = sum(len(entries) for entries in found.values())
    print(f"{count} entries compared, {len(result)} differences." if result else f"{count} entries compared: the same.")
    if stored("environment", given.folder) != environment():
        print("The files are of another machine or other versions: floats were compared to nine digits.")
    return 1 if result else 0


if __name__ == "__main__":
    sys.exit(main())
