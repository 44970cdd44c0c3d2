"""Builds the site: ``scripts/docs [--out DIR]``. Pages are staged in a folder of their own, which Sphinx then reads."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src"))
# Examples on the pages run without the user's home, colours and ledger.
os.environ.update({"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "SHUFFLEDP_PROGRESS": "none", "MPLBACKEND": "Agg"})


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Build the documentation's site.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="where (build/site)")
    out = parser.parse_args().out.resolve()
    # Syntax trees of pages stay until the end; garbage collection would take a sixth of the time.
    gc.disable()
    from sphinx.cmd.build import main as sphinx
    from staging import stage

    with tempfile.TemporaryDirectory("-shuffledp-site") as room:
        os.environ["XDG_DATA_HOME"] = os.environ["XDG_STATE_HOME"] = str(Path(room) / "own")
        staged = Path(room) / "pages"
        stage(ROOT, staged)
        words = ["-q", "-W", "--keep-going", "-n", "-E", "-b", "html", "-d", str(Path(room) / "read")]
        status = sphinx([*words, "-c", str(ROOT / "docs"), str(staged), str(out)])
    if not status:
        print(f"written to {out}/index.html")
    return status


if __name__ == "__main__":
    sys.exit(main())
