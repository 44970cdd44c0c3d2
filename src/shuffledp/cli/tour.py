"""What ``shuffledp`` alone shows: how much shuffling helps, and what to type next."""

from __future__ import annotations

import os

from rich.console import Console
from rich.progress import track
from rich.table import Table

from shuffledp.bounds.amplify import amplify
from shuffledp.cli import show
from shuffledp.privacy.variation_ratio import VariationRatio

LOCAL = (0.5, 1.0, 2.0, 4.0)
USERS = (1_000, 100_000, 10_000_000, 1_000_000_000)
DELTA = 1e-9
EXAMPLES = (
    "mechanisms",
    "amplify --mechanism krr --epsilon-local 2 --set options=128 --users 100000 --delta 1e-8",
    "compare --mechanism laplace --epsilon-local 1 --users 10000 --delta 1e-6",
    "amplify --help",
)


def _table() -> Table:
    """Central ε against local ε0 and number of users, for any ε0-LDP randomizer."""
    table = Table(title=f"What shuffling gives: central ε at δ = {DELTA:g}, any randomizer with local ε0")
    table.add_column("local ε0", justify="right")
    for users in USERS:
        table.add_column(f"{users:,} users", justify="right")
    console = Console(stderr=True)
    for epsilon in track(LOCAL, "Computing", console=console, transient=True, disable=not console.is_terminal):
        parameters = VariationRatio.of_ldp(epsilon)
        cells = [show.upper(amplify(parameters, users).epsilon(DELTA).upper) for users in USERS]
        table.add_row(f"{epsilon:g}", *cells)
    return table


def run() -> None:
    console = Console()
    console.print(_table())
    console.print("Every number is a proved upper bound. Try your own:")
    command = os.environ.get("SHUFFLEDP_COMMAND", "shuffledp")
    for example in EXAMPLES:
        console.print(f"  {command} {example}", highlight=False, soft_wrap=True)
