"""How many functions and modules one call goes through, and how deep: a measure of how hard the code is to follow.

``python benchmarks/walks.py`` counts functions of the package that run during a call, the modules that define them, and
the deepest stack of them. Comprehensions, class bodies and module bodies are not functions here.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import shuffledp as sdp

ROOT = os.path.dirname(os.path.abspath(sdp.__file__)) + os.sep
COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
BARS = {
    "amplify": (160, 25, 16),
    "plan": (600, 65, 28),
    "collect": (400, 60, 22),
}
"""For each call the most functions, modules and depth that we want."""


def walk(call: Callable[[], object]) -> dict[str, Any]:
    """Calls ``call`` and returns the functions of the package that ran, their modules, and their deepest stack."""
    counts: dict[CodeType, int] = {}
    depth = deepest = 0

    def is_counted(code: CodeType) -> bool:
        # The bodies of modules and classes, which run when a call imports them, have no local variables of their own.
        is_function = code.co_flags & inspect.CO_NEWLOCALS and code.co_name not in COMPREHENSIONS
        return bool(is_function) and code.co_filename.startswith(ROOT)

    def notice(frame: FrameType, event: str, argument: object) -> None:
        nonlocal depth, deepest
        if event not in ("call", "return") or not is_counted(frame.f_code):
            return
        if event == "call":
            counts[frame.f_code] = counts.get(frame.f_code, 0) + 1
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1

    sys.setprofile(notice)
    try:
        call()
    finally:
        sys.setprofile(None)
    modules: dict[str, list[str]] = {}
    for code in counts:
        module = code.co_filename.removeprefix(ROOT)
        modules.setdefault(module, []).append(code.co_qualname)
    return {
        "functions": len(counts),
        "modules": len(modules),
        "depth": deepest,
        "names": {module: sorted(names) for module, names in sorted(modules.items())},
    }


def amplify() -> object:
    """The example of the README: one certified ε of randomized response."""
    return sdp.amplify(sdp.KRR(2.0, options=128), users=100_000).epsilon(delta=1e-8).upper


def plan() -> object:
    """A plan over all mechanisms that can count eight options."""
    return sdp.plan(sdp.tasks.Frequency(8), users=10_000, epsilon=1.0, delta=1e-6)


def collect(directory: Path) -> object:
    """A collection of 10,000 answers in memory, with a ledger."""
    ranking = sdp.plan(sdp.tasks.Frequency(8), users=10_000, epsilon=1.0, delta=1e-6, mechanism="krr")
    values = np.arange(10_000) % 8
    sdp.collection.Ledger.create(directory / "ledger.sqlite")
    return walk(
        lambda: sdp.collect(ranking.best.plan, values, out=directory / "result", ledger=directory / "ledger.sqlite")
    )


def client_import() -> dict[str, Any]:
    """Modules loaded, and processor time in seconds, by importing the code that runs on a person's device."""
    program = (
        "import sys, time; began = time.process_time(); import shuffledp.service.client; "
        "print(time.process_time() - began, sum(n.split('.')[0] == 'shuffledp' for n in sys.modules), len(sys.modules))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(5)
    ]
    told = [run.stdout.split() for run in runs]
    return {"own_modules": int(told[0][1]), "all_modules": int(told[0][2]), "seconds": min(float(t[0]) for t in told)}


def main() -> None:
    """Prints the walks; ``--names`` the functions as well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", action="store_true", help="list the functions of each module")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    options = parser.parse_args()
    amplify()
    results: dict[str, Any] = {"amplify": walk(amplify), "plan": walk(plan)}
    with tempfile.TemporaryDirectory() as name:
        results["collect"] = collect(Path(name))
    for name, result in results.items():
        bars = "/".join(map(str, BARS[name]))
        print(f"{name}: {result['functions']} functions, {result['modules']} modules, depth {result['depth']} ({bars})")
        if options.names:
            for module, names in result["names"].items():
                print(f"    {module}: {', '.join(names)}")
    results["client"] = client_import()
    print(f"client: {results['client']}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
