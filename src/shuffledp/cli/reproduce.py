"""``shuffledp reproduce``: tables and figures of the papers, made again and judged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shuffledp import figure as figures
from shuffledp.cli import options, show
from shuffledp.cli.bars import Bars
from shuffledp.cli.show import Console
from shuffledp.document import json_text
from shuffledp.reproduction import ITEMS, Item, Sheet, items_of, reproduce

LIST = ", ".join(item.name for item in ITEMS)


def command(
    items: Annotated[list[str] | None, typer.Argument(metavar="[ITEM]...", help=f"Which: {LIST}.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All of them: a few minutes.")] = False,
    out: Annotated[Path | None, typer.Option(help="The folder to write to: a CSV and a PNG for each item.")] = None,
    json: options.Json = False,
) -> None:
    """Tables and figures of the papers, as printed, as published, as proved."""
    if out is None:
        _list()
        return
    if all_ == bool(items):
        raise ValueError("reproduce: give either items or --all.")
    chosen = list(ITEMS) if all_ else items_of(items or [])
    figures.demand_matplotlib()
    if out.exists() and not out.is_dir():
        raise ValueError(f"reproduce: --out must be a folder, got {out}.")
    out.mkdir(parents=True, exist_ok=True)
    found = []
    for place, item in enumerate(chosen, 1):
        start = time.process_time()
        sheet = reproduce(item, out, Bars())
        show.note(f"{place} of {len(chosen)}: {item.name}, {time.process_time() - start:.1f} s of processor time.")
        found.append((item, sheet))
    if json:
        typer.echo(json_text({"items": [_document(*one) for one in found]}))
        return
    for item, sheet in found:
        show.say(f"\n[{item.paper}] {item.where}: {item.title}")
        for verdict in sheet.verdicts:
            show.say(f"  {verdict.word}: {verdict.said}")


def _list() -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("item", "paper", "where", "what"):
        table.add_column(heading)
    for item in ITEMS:
        table.add_row(item.name, item.paper, item.where, item.title)
    Console().print(table)
    show.say("\nAdd items, or --all, and --out FOLDER.")


def _document(item: Item, sheet: Sheet) -> dict[str, object]:
    verdicts = [{"said": one.said, "reproduced": one.reproduced, "key": one.key} for one in sheet.verdicts]
    return {"name": item.name, "paper": item.paper, "where": item.where, "title": item.title, "verdicts": verdicts}
