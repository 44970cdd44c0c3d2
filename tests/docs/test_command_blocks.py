"""Blocks of commands on the older pages run as they stand, on data that is made here, at sizes that take seconds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli import run
from tests.docs.page_runner import BLOCK, DOCS, parse_commands

OPTIONAL = re.compile(r"\[(--[^\]]*)\]")
"""What may be left out is not."""


def table(name: str, **columns: Any) -> None:
    pq.write_table(pa.table(columns), name)


def words() -> None:
    table("data.parquet", word=["apple"] * 2000 + ["pear"] * 1500 + ["plum"] * 500 + [f"w{n}" for n in range(1000)])


def ages() -> None:
    table("data.parquet", age=[n % 50 for n in range(20_000)])
    Path("monday.csv").write_text("day\n" + "0\n" * 300)


def choices() -> None:
    table("data.parquet", choice=[n % 7 for n in range(10_000)])


def places() -> None:
    Path("distances.csv").write_text("0,1,4.9\n1,0,3.9\n4.9,3.9,0\n")
    Path("target.csv").write_text("0,0.1,0.3\n0.1,0,0.2\n0.3,0.2,0\n")
    near = [f"{52.33 + 0.01 * i},{4.80 + 0.01 * j}" for i in range(3) for j in range(3)]
    Path("places.csv").write_text("\n".join(near) + "\n")
    rng = np.random.default_rng(1)
    Path("people.csv").write_text("place\n" + "\n".join(map(str, rng.integers(0, 9, 10_000).tolist())) + "\n")


@dataclass(frozen=True)
class Shown:
    """A page, what must be there before, and what is made smaller, or whole where the page leaves it open."""

    page: str
    count: int
    """How many commands there are: none may be overlooked."""
    before: Callable[[], None] | None = None
    smaller: dict[str, str] = field(default_factory=dict)


PAGES = (
    Shown("heavy-hitters", 3, words, {"--strings 64 --users 1e6 --epsilon 1 --delta 1e-8 --rounds 9":
                                      "--strings 16 --users 5000 --epsilon 3 --delta 1e-6 --rounds 4 --reach 36"}),
    Shown("ranges", 8, ages, {"--domain 1024 --users 1e7 --epsilon 4 --delta 1e-14":
                              "--domain 64 --users 2e4 --epsilon 4 --delta 1e-7"}),
    Shown("tradeoff", 4),
    Shown("crowds", 4),
    Shown("multimessage", 3, None, {"--domain 104": "--domain 104 --mechanism poisson-dump"}),
    Shown("certificates", 3),
    Shown("planning", 5, choices, {"--users 1e6 --domain 1024": "--users 1e4 --domain 16"}),
    Shown("composition", 2, None, {"--epsilon-local 2": "--epsilon-local 2 --effort quick"}),
    Shown("metric", 10, places, {"FILE": "drawn.png"}),
)  # fmt: skip


def shown(page: str) -> list[str]:
    """The commands of a page's blocks, in their order."""
    blocks = BLOCK.findall((DOCS / f"{page}.md").read_text("utf-8"))
    every = [command for kind, block in blocks if kind in ("", "sh", "console") for command, _ in parse_commands(block)]
    return [OPTIONAL.sub(r"\1", command) for command in every if command.startswith("shuffledp ")]


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.page)
def test_the_commands_of_a_page_run(page: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom in one folder, with a ledger of its own; sizes are smaller where the page's take minutes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    found = shown(page.page)
    if "shuffledp ledger create" not in found:
        assert run("ledger", "create").status == 0
    if page.before is not None:
        page.before()
    assert len(found) == page.count
    changed = set()
    for command in found:
        for there, here in page.smaller.items():
            if there in command:
                changed.add(there)
                command = command.replace(there, here)
        outcome = run(*shlex.split(command, comments=True)[1:])
        assert outcome.status == 0, f"{command}: {outcome.err}"
    assert changed == page.smaller.keys()
