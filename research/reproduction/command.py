"""``shuffledp reproduce``: recomputes tables and figures of the papers and judges their claims."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from research.reproduction import ITEMS, ReproducedItem, Sheet, find_items, reproduce
from shuffledp._core import plotting
from shuffledp._core.formatting import format_json
from shuffledp.cli import options, output
from shuffledp.cli.output import Console, ProgressBars

ITEM_NAMES = ", ".join(item.name for item in ITEMS)


def command(
    items: Annotated[list[str] | None, typer.Argument(metavar="[ITEM]...", help=f"Which: {ITEM_NAMES}.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All of them: a few minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="The folder to write to: a CSV and a PNG for each item.")] = None,
    json: options.Json = False,
) -> None:
    """Reproduce tables and figures of the papers: as printed, as published, as proved."""
    if out is None:
        _print_items()
        return
    if all_ == bool(items):
        raise ValueError("reproduce: give either items or --all.")
    selected = list(ITEMS) if all_ else find_items(items or [])
    plotting.require_matplotlib()
    if out.exists() and not out.is_dir():
        raise ValueError(f"reproduce: --out must be a folder, got {out}.")
    out.mkdir(parents=True, exist_ok=True)
    results = []
    for place, item in enumerate(selected, 1):
        start = time.process_time()
        sheet = reproduce(item, out, ProgressBars())
        output.print_note(
            f"{place} of {len(selected)}: {item.name}, {time.process_time() - start:.1f} s of processor time."
        )
        results.append((item, sheet))
    if json:
        typer.echo(format_json({"items": [_to_document(*result) for result in results]}))
        return
    for item, sheet in results:
        output.print_text(f"\n[{item.paper}] {item.reference}: {item.title}")
        for verdict in sheet.verdicts:
            output.print_text(f"  {verdict.verdict_text}: {verdict.claim}")


def _print_items() -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("item", "paper", "where", "what"):
        table.add_column(heading)
    for item in ITEMS:
        table.add_row(item.name, item.paper, item.reference, item.title)
    Console().print(table)
    output.print_text("\nAdd items, or --all, and --out FOLDER.")


def _to_document(item: ReproducedItem, sheet: Sheet) -> dict[str, object]:
    verdicts = [{"said": one.claim, "reproduced": one.reproduced, "key": one.test_name} for one in sheet.verdicts]
    return {"name": item.name, "paper": item.paper, "where": item.reference, "title": item.title, "verdicts": verdicts}
