"""One certified call, or none, in a process of its own: prints its first-call time and peak memory as JSON.

    python benchmarks/alone.py [P BETA Q USERS BOUND DELTA]

Without arguments it only imports the package. The time is processor time.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from shuffledp import VariationRatio, amplify


def peak_megabytes() -> float:
    """Peak resident memory of this process.

    Linux keeps a parent's peak in the ``ru_maxrss`` of the child that it starts, so its own high-water mark is
    read where the system offers it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def main() -> None:
    seconds = 0.0
    if len(sys.argv) > 1:
        p, beta, q, users, bound, delta = sys.argv[1:]
        start = time.process_time()
        amplify(VariationRatio(float(p), float(beta), float(q)), int(users), bound=bound).epsilon(float(delta))
        seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main()
