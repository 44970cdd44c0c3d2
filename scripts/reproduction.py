"""Writes docs/reproduction.md: a one-line verdict for each claim of the papers that was recomputed.

python scripts/reproduction.py [RESULT.json]

RESULT.json is the output of ``./run reproduce --all --out DIR --json``; without it everything is computed first.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reproduction.md"
PAPERS = {
    "VR": "Privacy Amplification via Shuffling: Unified, Simplified, and Tightened",
    "MDP": "Metric Differential Privacy in the Shuffle Model",
    "LC": "Lossless Compression of Efficient Private Local Randomizers",
    "FDP": "Unified Enhancement of Privacy Bounds for Mixture Mechanisms via f-DP",
}
HEAD = """# Reproduction of the papers

In a checkout, `./run reproduce --all --out DIR` recomputes every table and figure of the four papers that is about
numbers. It writes a CSV and a figure for each, with these columns as far as they apply:

| column | meaning |
|---|---|
| *printed* | the number in the paper |
| *published* | the value of the paper's formula |
| *sound* | the number that is proved |
| *attack* | what an attack on a constructed dataset attains; no sound number is below it |

Keys of errors (VR-1, …) are explained in [errata.md](errata.md). Every claim that is **not reproduced** has a test
that computes both sides, in `tests/reproduction` or among the tests of the errata. The key in parentheses is the name
of that test in `test_both_sides.py`, or an entry of `ELSEWHERE` there.

Written by `scripts/reproduction.py` from a run.
"""


def run_all() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as room:
        words = [sys.executable, "-m", "shuffledp", "reproduce", "--all", "--out", room, "--json"]
        result: dict[str, Any] = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
        return result


def lines(result: dict[str, Any]) -> list[str]:
    page = []
    for paper, title in PAPERS.items():
        page.append(f"\n## [{paper}] {title}\n")
        for item in result["items"]:
            if item["paper"] != paper:
                continue
            page.append(f"\n**{item['where']}** ({item['title']}; `{item['name']}`)\n")
            for verdict in item["verdicts"]:
                word = "reproduced" if verdict["reproduced"] else f"**not reproduced** (`{verdict['key']}`)"
                page.append(f"- {word}: {verdict['said']}")
    return page


def main() -> None:
    result = json.loads(Path(sys.argv[1]).read_text("utf-8")) if len(sys.argv) > 1 else run_all()
    PAGE.write_text(HEAD + "\n".join(lines(result)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
