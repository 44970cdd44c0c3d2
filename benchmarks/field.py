"""The field's benchmark: protocols on data sets by one accountant, and how fast accounting and collecting are.

    benchmarks/run [--rivals PYTHON] [--rows 1e6] [--no-spark]

Writes benchmarks/result.json and docs/benchmarks.md. Times are processor times of one run, steps of what is compared
alternating; --rivals names an interpreter that has pure-ldp, multi-freq-ldpy and opendp.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from algorithm_1 import Algorithm1
from field_data import DELTA, EPSILON, OPTIONS, PROTOCOLS, USERS, calibrated, data_sets
from mechanisms import COMPARED, compare, rivals_of

import shuffledp as sdp

HERE = Path(__file__).resolve().parent
RESULT, PAGE = HERE / "result.json", HERE.parent / "docs" / "benchmarks.md"
SIZES = tuple(10**power for power in range(3, 13))
RUNS = 10
"""Collections of each protocol on each data set: errors of the options of one may go together."""
WHOLE = 100_000
"""Algorithm 1 runs whole up to here."""
OPENDP = """
import json, time
import opendp.prelude as dp
dp.enable_features("contrib")
response = dp.m.make_randomized_response(list(range(OPTIONS)), prob=0.02)
start = time.process_time()
for _ in range(2000):
    response(5)
print(json.dumps({"seconds": (time.process_time() - start) / 2000}))
"""


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def timed(step: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = step()
    return time.process_time() - start, found


# --- protocols on data ----------------------------------------------------------------------------------------------


def cell(place: int, data: Any) -> dict[str, Any] | None:
    """One protocol on one data set; None where it cannot reach the target there."""
    protocol = PROTOCOLS[place]
    try:
        found = calibrated(place)
    except sdp.NotApplicable:
        return None
    mechanism, values = found.mechanism, protocol.scale(data.values)
    users = len(values)
    truth = np.ravel(mechanism.truth(values))
    # Means and counts alike as shares of the users, or of the range of a number.
    unit = users if data.task == "frequency" else 1.0 if protocol.scale is np.asarray else 2.0
    client = server = squares = 0.0
    for run in range(RUNS):
        rng = np.random.default_rng([run, *data.name.encode()])
        seconds, messages = timed(partial(mechanism.encode, values, rng=rng))
        client += seconds
        seconds, estimate = timed(partial(mechanism.estimate, messages, users=users))
        server += seconds
        squares += float(np.mean(((np.ravel(estimate.value) - truth) / unit) ** 2))
    stated = np.sqrt(np.ravel(mechanism.variance(values))) / unit
    return {
        "task": data.task, "data": data.name, "protocol": protocol.name,
        "setting": found.setting, "epsilon": found.epsilon.upper, "bound": found.epsilon.bound,
        "local_epsilon": mechanism.local_epsilon,
        "error": math.sqrt(squares / RUNS), "stated_error": float(np.sqrt(np.mean(stated**2))),
        "messages": mechanism.messages_per_user, "bits": mechanism.messages_per_user * mechanism.message_bits,
        "client_microseconds": 1e6 * client / users / RUNS, "server_microseconds": 1e6 * server / users / RUNS,
        "liar_moves": None if math.isinf(mechanism.influence) else mechanism.influence,
    }  # fmt: skip


def cells() -> list[dict[str, Any]]:
    rows = []
    for data in data_sets():
        for place, protocol in enumerate(PROTOCOLS):
            if protocol.task != data.task:
                continue
            say(f"{data.name}: {protocol.name}")
            found = cell(place, data)
            if found is not None:
                rows.append(found)
    return rows


# --- accounting -----------------------------------------------------------------------------------------------------


def accounting() -> list[dict[str, Any]]:
    """A certified ε of any 1-LDP randomizer against literal Algorithm 1, δ = 0.01/n."""
    rows = []
    ratio = math.e
    for users in SIZES:
        say(f"accounting, n = {users:.0e}")
        ours = [timed(partial(certified, users)) for _ in range(3)]
        seconds, value = statistics.median(one for one, _ in ours), ours[0][1]
        theirs: float | None = None
        if users <= WHOLE:
            literal = Algorithm1(ratio, (ratio - 1) / (ratio + 1), ratio, users)
            theirs, epsilon = timed(partial(literal.epsilon, 0.01 / users))
            assert abs(epsilon - value.upper) <= 2 * literal.resolution
        rows.append({"users": users, "epsilon": value.upper, "slack": value.slack, "seconds": seconds,
                     "algorithm_1_seconds": theirs, "ratio": None if theirs is None else theirs / seconds})  # fmt: skip
    return rows


def certified(users: int) -> Any:
    """ε of any 1-LDP randomizer."""
    return sdp.amplify(sdp.VariationRatio.from_ldp(1.0), users, bound="stronger-clone").epsilon(0.01 / users)


def rounds() -> list[dict[str, Any]]:
    """Composed rounds against dp_accounting, which is given the certified curve of one round."""
    rows = []
    for count in (1, 100, 1000):
        say(f"{count} rounds")
        curve = sdp.amplify(sdp.VariationRatio.from_ldp(2.0), 10_000, bound="stronger-clone")
        mine, value = timed(partial(composed, curve, count))
        theirs, other = timed(partial(composed_there, curve, count))
        rows.append({"rounds": count, "epsilon": value.upper, "slack": value.slack, "seconds": mine,
                     "dp_accounting_epsilon": other, "dp_accounting_seconds": theirs,
                     "ratio": theirs / mine})  # fmt: skip
    return rows


def composed(curve: Any, count: int) -> Any:
    return sdp.compose(curve, count).epsilon(1e-6)


def composed_there(curve: Any, count: int) -> float:
    return float(curve.to_pld().self_compose(count).get_epsilon_for_delta(1e-6))


# --- encoding, aggregating, collecting ------------------------------------------------------------------------------


def libraries(interpreter: str | None) -> dict[str, Any]:
    """Encoding and aggregating beside other libraries; ratios are theirs over ours in the same run."""
    choice = argparse.Namespace(users=20_000, epsilon=1.0, repetitions=1)
    rows: list[dict[str, Any]] = []
    with rivals_of(interpreter) as rivals:
        for name in COMPARED:
            say(f"encode and aggregate: {name}")
            rows += [{"mechanism": row.mechanism, "options": row.options, "step": row.step, "seconds": row.system,
                      "rivals": row.rivals, "ratio": row.ratio}
                     for row in compare(name, 128, choice, rivals)]  # fmt: skip
        versions = {} if rivals is None else rivals.versions
    if interpreter is not None:
        asked = subprocess.run(
            [interpreter, "-c", OPENDP.replace("OPTIONS", "128")], capture_output=True, text=True, check=False
        )
        if asked.returncode == 0:
            theirs = json.loads(asked.stdout)["seconds"]
            ours = next(row["seconds"] for row in rows if (row["mechanism"], row["step"]) == ("krr", "encode"))
            rows.append({"mechanism": "krr", "options": 128, "step": "encode", "seconds": ours,
                         "rivals": {"opendp": theirs}, "ratio": theirs / ours})  # fmt: skip
    return {"versions": versions, "rows": rows}


def collections(rows: float, spark: bool) -> Iterator[dict[str, Any]]:
    """A whole collection on each engine, in a process of its own."""
    for engine, count in (("embedded", rows), ("spark", rows / 10)):
        if engine == "spark" and not spark:
            continue
        say(f"collection on {engine}")
        words = [sys.executable, HERE / "collection.py", "--rows", str(count), "--engine", engine, "--json"]
        words += ["--master", "local[2]"] if engine == "spark" else []
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        if done.returncode:
            yield {"engine": engine, "rows": int(count), "failed": done.stderr.strip().splitlines()[-1:]}
            continue
        found = json.loads(done.stdout)
        yield {"engine": engine, "rows": int(count), "seconds": found["seconds"], "cpu": found["cpu_of_all_processes"],
               "rows_per_second": count / found["seconds"], "megabytes": found["megabytes"],
               "megabytes_of_imports": found["megabytes_of_imports"]}  # fmt: skip


# --- the page -------------------------------------------------------------------------------------------------------


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *(f"| {' | '.join(row)} |" for row in rows)]
    )


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def protocol_table(rows: list[dict[str, Any]]) -> str:
    """Returns the cost of each protocol, once, and its error on every data set."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    by_protocol: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_protocol.setdefault(row["protocol"], []).append(row)
    found = sorted(by_protocol.items(), key=lambda one: statistics.mean(row["stated_error"] for row in one[1]))
    costs = table(
        ("protocol", "local ε", "messages", "bits", "client, µs", "server, µs per user", "liar"),
        [(name, number(mine[0]["local_epsilon"], 4), number(mine[0]["messages"]), f"{mine[0]['bits']:,.4g}",
          number(statistics.median(row["client_microseconds"] for row in mine)),
          number(statistics.median(row["server_microseconds"] for row in mine)),
          number(mine[0]["liar_moves"]) if mine[0]["liar_moves"] is not None else "anything")
         for name, mine in found])  # fmt: skip
    errors = table(
        ("protocol", "stated", *names),
        [(name, f"{1e4 * statistics.mean(row['stated_error'] for row in mine):.2f}",
          *(f"{1e4 * row['error']:.2f}" for data in names for row in mine if row["data"] == data))
         for name, mine in found])  # fmt: skip
    return f"{costs}\n\nErrors, in units of 1e-4:\n\n{errors}"


def page(result: dict[str, Any]) -> str:
    """docs/benchmarks.md."""
    parts = [
        "# Benchmarks against other protocols and libraries\n\n"
        "Written by `benchmarks/run`, which also writes [benchmarks/result.json](../benchmarks/result.json). All "
        "protocols share one accountant: each is calibrated by the same certified bounds to "
        f"(ε, δ) = ({EPSILON:g}, {DELTA:g}) for {USERS:,} users, with default settings. Unless stated otherwise, times "
        "are processor times. Each table comes from one run on "
        f"{result['machine']['cores']} cores (load {result['machine']['load']:.1f} at its start); on other machines "
        "only the ratios within a table are meaningful.\n",
        "## Protocols on data\n\n"
        f"- *Error*: root mean square error in {RUNS} runs, over all options as a share of the users, or of a mean as "
        "a share of the range.\n"
        "- *Stated*: the error that the mechanism states beforehand, on average over the datasets.\n"
        "- *Messages* and *bits*: of one user, on average where their number varies.\n"
        "- *Liar*: the largest number of honest users that one dishonest user can count for.\n"
        "- Local ε “–”: the message is in the clear and hides only among other messages and their noise.\n",
    ]
    for task, title in (("frequency", f"Frequencies of {OPTIONS} options"), ("mean", "Means of a number")):
        parts.append(f"### {title}\n\n{protocol_table([row for row in result['protocols'] if row['task'] == task])}\n")
    parts.append(
        "## A certified ε against literal Algorithm 1\n\n"
        "Any 1-LDP randomizer, δ = 0.01/n, by the bound that Algorithm 1 computes (`stronger-clone`). By default "
        "`amplify`\nis sharper: at n = 1e4 it gives 0.0380052 in place of 0.0432062.\n"
    )
    parts.append(table(("n", "ε", "slack", "ours, ms", "Algorithm 1, s", "ratio"), [
        (f"{row['users']:.0e}", f"{row['epsilon']:.6g}", f"{row['slack']:.1e}", number(1000 * row["seconds"]),
         number(row["algorithm_1_seconds"]), number(row["ratio"]))
        for row in result["accounting"]]) + "\n")  # fmt: skip
    parts.append(
        "## Rounds against dp_accounting\n\nε0 = 2, n = 10,000, δ = 1e-6. The ε of dp_accounting is not certified.\n"
    )
    parts.append(table(("rounds", "ε", "slack", "ours, s", "ε of dp_accounting", "dp_accounting, s", "ratio"), [
        (str(row["rounds"]), f"{row['epsilon']:.6g}", f"{row['slack']:.1e}", number(row["seconds"]),
         f"{row['dp_accounting_epsilon']:.6g}", number(row["dp_accounting_seconds"]), number(row["ratio"]))
        for row in result["rounds"]]) + "\n")  # fmt: skip
    known = (
        ", ".join(f"{name} {version}" for name, version in result["libraries"]["versions"].items()) or "none was given"
    )
    parts.append(
        "## Encoding and aggregating compared with other libraries\n\nNanoseconds per user, 128 options, ε = 1. "
        f"{known}. The randomized response of opendp is called once per user, and has no aggregator.\n"
    )
    parts.append(table(("mechanism", "step", "ours", "theirs", "ratio to the fastest"), [
        (row["mechanism"], row["step"], number(1e9 * row["seconds"]),
         ", ".join(f"{name} {number(1e9 * seconds)}" for name, seconds in row["rivals"].items()) or "–",
         number(row["ratio"])) for row in result["libraries"]["rows"]]) + "\n")  # fmt: skip
    parts.append(
        "## Whole collections\n\nKRR with 1,024 options: check, encode, shuffle, aggregate and report, in wall-clock "
        "time.\n"
    )
    parts.append(table(("engine", "rows", "seconds", "rows per second", "peak memory, MB", "imports, MB"), [
        (row["engine"], f"{row['rows']:,}", *(("not measured",) * 4 if "failed" in row else (
            number(row["seconds"]), number(row["rows_per_second"]), number(row["megabytes"]),
            number(row["megabytes_of_imports"])))) for row in result["collections"]]) + "\n")  # fmt: skip
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rivals", metavar="PYTHON", help="interpreter that has pure-ldp, multi-freq-ldpy and opendp")
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--parts", nargs="+", help="only these, the others as they are in the result", default=[])
    parser.add_argument("--page-only", action="store_true", help="write the page anew from the result")
    choice = parser.parse_args()
    if not choice.page_only:
        measure(choice)
    PAGE.write_text(page(json.loads(RESULT.read_text("utf-8"))), "utf-8")


def measure(choice: argparse.Namespace) -> None:
    """Measures all parts in order; finished parts are read from the file."""
    begun = time.monotonic()
    result: dict[str, Any] = {
        "version": sdp.__version__,
        "machine": {"python": platform.python_version(), "numpy": importlib.metadata.version("numpy"),
                    "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "target": {"epsilon": EPSILON, "delta": DELTA, "users": USERS},
    }  # fmt: skip
    parts: dict[str, Callable[[], Any]] = {
        "accounting": accounting,
        "rounds": rounds,
        "protocols": cells,
        "libraries": lambda: libraries(choice.rivals),
        "collections": lambda: list(collections(choice.rows, not choice.no_spark)),
    }
    if choice.parts:
        result = {**json.loads(RESULT.read_text("utf-8")), "machine": result["machine"]}
    for name in choice.parts or parts:
        result[name] = parts[name]()
        result["seconds"] = time.monotonic() - begun
        RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
