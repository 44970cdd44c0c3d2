"""Latency of the page in a real browser: from moving a slider to the certified ε, and to the first paint.

Wall-clock times, as people feel them, taken by the page's own clock from the event of a field to the frame that shows
the number: a test's look from outside would come late by its own pauses. Beside them stands the processor time of the
same question in Python, which says what an idle machine would take.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

import shuffledp as sdp
from tests.explorer.browser import ARGUMENTS, PageServer, chromium_path, run_server

USERS = ("1e3", "1e4", "1e5", "1e6", "1e7", "1e8")
LOCALS = tuple(f"{1 + 0.05 * step:.2f}" for step in range(1, 13))
PAINT = """() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"""
MOVED = """local => new Promise(done => {
  const field = document.getElementById('f-epsilon_local');
  const exact = () => document.getElementById('epsilon')?.dataset.exact;
  const attack = () => document.getElementById('attack')?.textContent ?? '';
  const before = exact(), start = performance.now();
  let number = null;
  const seen = new MutationObserver(() => {
    if (number === null && exact() !== before) { number = 0; requestAnimationFrame(() => {
      // Behind the frame that shows it.
      const behind = new MessageChannel();
      behind.port1.onmessage = () => { number = performance.now() - start; };
      behind.port2.postMessage(0);
    }); }
    if (exact() !== before && !attack().startsWith('Looking')) {
      seen.disconnect();
      setTimeout(() => done([number, performance.now() - start]), 50);
    }
  });
  seen.observe(document.getElementById('view'), { subtree: true, childList: true });
  field.value = local;
  field.dispatchEvent(new Event('input', { bubbles: true }));
})"""
LOADS = 5


def moved(page: Page, local: str) -> float:
    """Seconds from a new local ε to its number on the page."""
    return float(page.evaluate(MOVED, local)[0]) / 1000


def worked(users: str, local: str) -> float:
    """Processor time of the same number in Python."""
    start = time.process_time()
    sdp.amplify(sdp.KRR(float(local), options=16), float(users), effort="quick").epsilon(1e-8)
    return time.process_time() - start


def painted(page: Page, server: PageServer) -> float:
    """Seconds until something is seen."""
    page.goto("about:blank")
    page.goto(server.url)
    page.wait_for_selector("h1")
    page.wait_for_timeout(200)
    return float(page.evaluate(PAINT)) / 1000


def measured() -> dict[str, Any]:
    """Measures everything, in one browser and one server."""
    with run_server() as server, sync_playwright() as started:
        page = started.chromium.launch(executable_path=chromium_path(), args=list(ARGUMENTS)).new_page()
        paints = [painted(page, server) for _ in range(LOADS)]
        rows = []
        for users in USERS:
            page.goto("about:blank")
            page.goto(f"{server.url}#risk")
            page.goto(f"{server.url}#guarantee?users={users}&epsilon_local=1")
            page.wait_for_selector("#epsilon")
            page.wait_for_selector(".working", state="detached", timeout=120_000)
            felt = [moved(page, local) for local in LOCALS]
            spent = [worked(users, local) for local in LOCALS]
            rows.append({"users": users, "felt": statistics.median(felt), "processor": statistics.median(spent)})
        return {"first_paint": statistics.median(paints), "rows": rows,
                "median": statistics.median(row["felt"] for row in rows)}  # fmt: skip


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="Also write everything here.")
    options = parser.parse_args()
    found = measured()
    table = Table("users", "slider to number, ms", "processor time of the number, ms")
    for row in found["rows"]:
        table.add_row(row["users"], f"{1000 * row['felt']:.0f}", f"{1000 * row['processor']:.0f}")
    console = Console()
    console.print(table)
    console.print(f"Median: {1000 * found['median']:.0f} ms. First paint: {1000 * found['first_paint']:.0f} ms.")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
