"""Every command by name: where it is, and its sentence. It is imported when it is asked for, as each needs much that
the others do not.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from shuffledp.cli.once import OnceEach


class Listed(NamedTuple):
    """A function of a module of this layer, or its ``app`` of several commands."""

    home: str
    sentence: str
    """The first of its help: the list of commands is shown without importing them."""
    kind: str | None = None
    """The class of the command, from the same module, where it is one of its own."""


LISTED = {
    "amplify": Listed("amplify:command", "The central (ε, δ) guarantee of shuffled messages, certified."),
    "compare": Listed("compare:command", "Every bound side by side, and the best known attack."),
    "crowd": Listed(
        "crowd:command",
        "The central (ε, δ) guarantee of a user of each group, where groups differ in their local ε or their table.",
    ),
    "calibrate": Listed("calibrate:command", "The most useful setting that meets a central target."),
    "tradeoff": Listed("tradeoff:command", "What any attack on the shuffled messages can do, certified."),
    "mechanisms": Listed(
        "mechanisms:command", "The catalogue: every randomizer, its task and settings; with NAME all about one."
    ),
    "audit": Listed("audit:command", "Test whether a randomizer keeps its local ε."),
    "verify": Listed("verify:command", "Prove a certificate's claim by an independent route."),
    "reproduce": Listed("reproduce:command", "Tables and figures of the papers, as printed, as published, as proved."),
    "plan": Listed("plan:command", "Mechanisms that meet a target, ranked by error; a plan."),
    "simulate": Listed("simulate:command", "Try a plan on made-up users: is the error as promised?"),
    "collect": Listed("collect:command", "Collect privately: encode, shuffle, aggregate, report."),
    "encode": Listed("collect:encode", "The encoder's role: randomize values into messages."),
    "shuffle": Listed("collect:shuffle", "The shuffler's role: take away order and origin."),
    "release": Listed("collect:release", "The shuffler's role day by day: release what is over today."),
    "estimate": Listed("collect:estimate", "The estimator's role: a report from shuffled messages."),
    "serve": Listed(
        "serve:command", "The shuffler: take sealed reports, close rounds by the clock, hand batches to the analyst."
    ),
    "send": Listed("send:command", "The encoder's role over a network: randomize, seal and send the rows of a table."),
    "receive": Listed("receive:command", "The analyst's role: open the sealed messages of a campaign, for `estimate`."),
    "demo": Listed(
        "demo:command",
        "The whole path over loopback: clients seal, a shuffler that is killed once mixes, an analyst estimates.",
    ),
    "ask": Listed("ask:command", "Ask a finished collection of ranges; costs no privacy.", "TakesRanges"),
    "web": Listed(
        "web:command", "A page to see what shuffling buys, choose, and take the proof home; it stays on this machine."
    ),
    "metric": Listed("metric_compare:app", "Metric privacy: near inputs are hidden better than far ones."),
    "keys": Listed("keys:app", "Keys of analysts and shufflers, in files for their owners."),
    "campaign": Listed("campaign:app", "What analyst, shuffler and clients act on."),
    "ledger": Listed("ledger:app", "What each population has given so far, and its budget."),
}


def _built(name: str, entry: Listed) -> Any:
    """The command as the parser has it."""
    place, _, found = entry.home.partition(":")
    module = import_module(f"shuffledp.cli.{place}")
    what, room = getattr(module, found), typer.Typer(add_completion=False, rich_markup_mode=None)
    # One command alone would be the whole program.
    room.callback()(lambda: None)
    if isinstance(what, typer.Typer):
        room.add_typer(what, name=name)
    else:
        room.command(name, cls=getattr(module, entry.kind) if entry.kind else None)(what)
    group = typer.main.get_command(room)
    assert isinstance(group, TyperGroup)
    return group.commands[name]


class Commands(MutableMapping[str, Any]):
    """All of them, in order, each built when it is asked for."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _built(name, LISTED[name])
        return self._built[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands stay")

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


class AllCommands(OnceEach):
    """The program's group: what it lists is known beforehand."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(LISTED)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Names and sentences."""
        told: dict[str, Any] = {name: TyperCommand(name, help=entry.sentence) for name, entry in LISTED.items()}
        TyperGroup(commands=told).format_commands(ctx, formatter)
