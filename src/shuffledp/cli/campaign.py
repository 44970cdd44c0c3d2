"""``shuffledp campaign``: what analyst, shuffler and clients act on."""

from __future__ import annotations

import json as json_format
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from shuffledp.cli import options, show as shown
from shuffledp.cli.ledger import LedgerGiven, NoLedger, kept
from shuffledp.cli.once import OnceEach
from shuffledp.cli.shuffler_option import CampaignFile, CampaignId, Database, KeysDirectory, StateDirectory
from shuffledp.document import json_text, rounded_up
from shuffledp.planner.plan_file import Plan
from shuffledp.service.admission import PrivateTokens
from shuffledp.service.app import round_told
from shuffledp.service.browser.static_file import MODULE, content
from shuffledp.service.campaign import Campaign
from shuffledp.service.envelope import KEY_BYTES, from_text
from shuffledp.service.key_file import AnalystKey, ShufflerKey
from shuffledp.service.observed_time import ObservedTime
from shuffledp.service.place import Place
from shuffledp.service.private_token import IssuerKey
from shuffledp.service.round import Keeper
from shuffledp.service.store import Accepted, Round, Store, utc

app = typer.Typer(
    cls=OnceEach, help="What analyst, shuffler and clients act on.", add_completion=False, rich_markup_mode=None
)
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def seconds(name: str, text: str) -> int:
    """A duration such as 7d, 12h, 30m or 90s."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None:
        raise ValueError(
            f"campaign: {name} must be a number of days, hours, minutes or seconds, such as 7d, got {text!r}."
        )
    return int(found[1]) * UNITS[found[2]]


@app.command()
def create(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    analyst_key: Annotated[Path, typer.Option("--analyst-key", help="The analyst's key file.")],
    shuffler: Annotated[Path, typer.Option("--shuffler", help="A file of what `keys new --shuffler` printed.")],
    out: Annotated[Path, typer.Option("--out", help="A new file for the campaign.")],
    url: Annotated[str, typer.Option("--url", help="Where clients reach the shuffler: its https address.")] = "",
    analyst: Annotated[str, typer.Option("--analyst", help="Who runs the analysis.")] = "",
    operator: Annotated[str, typer.Option("--operator", help="Who runs the shuffler.")] = "",
    question: Annotated[str, typer.Option("--question", help="What people are asked, in their words.")] = "",
    window: Annotated[str, typer.Option("--window", help="How long a round is open: 7d, 12h, 30m or 90s.")] = "7d",
    extensions: Annotated[int, typer.Option("--extensions", help="How often that is extended if too few came.")] = 1,
    retention: Annotated[str, typer.Option("--retention", help="How long an unfetched batch is kept.")] = "30d",
    capacity: Annotated[
        int | None,
        typer.Option(
            "--capacity", help="The most reports of a round; by default ten times the planned users, at least 100,000."
        ),
    ] = None,
    issuer: Annotated[str, typer.Option("--issuer", help="Who issues the tokens that admit people.")] = "",
    issuer_key: Annotated[
        Path | None, typer.Option("--issuer-key", help="The issuer's public key, as it publishes it (DER).")
    ] = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Make a campaign of a plan. Its minimum and colluding users are those of the plan."""
    made = Campaign.create(
        Plan.load(plan), AnalystKey.load(analyst_key), _identity(shuffler), url=url, operators=(analyst, operator),
        window=seconds("window", window), extensions=extensions, retention=seconds("retention", retention),
        question=question, admission=_admission(issuer, issuer_key), capacity=capacity,
    )  # fmt: skip
    made.save(out)
    if not json:
        shown.written("campaign", out)
    _tell(made, json)


@app.command("show")
def show(campaign: CampaignFile, mechanism_file: options.MechanismFile = None, json: options.Json = False) -> None:
    """What a campaign promises, to whom and by whom."""
    _tell(Campaign.load(campaign), json)


# --- at the shuffler --------------------------------------------------------------------------------------------------


@app.command()
def accept(
    campaign: CampaignFile,
    state: StateDirectory,
    key: Annotated[Path, typer.Option("--key", help="The shuffler's key file.")],
    keys: KeysDirectory = None,
    database: Database = None,
    ledger: LedgerGiven = None,
    no_ledger: NoLedger = False,
    without_local: Annotated[
        bool, typer.Option("--without-local", help="Accept messages that promise nothing without the shuffler.")
    ] = False,
    json: options.Json = False,
) -> None:
    """At the shuffler: check what a campaign promises, and open its first round."""
    chosen = Campaign.load(campaign)
    book = kept("campaign", ledger, no_ledger, chosen.plan)
    chosen.demand_kept(without_local=without_local)
    identity = ShufflerKey.load(key)
    # Before anything is made: a directory with the wrong key would refuse the right one.
    chosen.demand_shuffler(identity)
    place = Place.of(state, keys, database)
    place.make(identity)
    with _keeping(place) as keeper:
        opened = keeper.accept(
            Accepted(chosen, None if book is None else os.fspath(book.resolve())), ObservedTime(state).look().now
        )
    _tell_round(opened, json)


@app.command("list")
def all_campaigns(
    state: StateDirectory, keys: KeysDirectory = None, database: Database = None, json: options.Json = False
) -> None:
    """At the shuffler: its campaigns, and where their rounds stand."""
    place = Place.of(state, keys, database)
    _ = place.identity
    with closing(place.store()) as store:
        accepted = Keeper(place, store).own()
        if json:
            typer.echo(json_text({"campaigns": [_listed(each, store) for each in accepted]}))
        for each in () if json else accepted:
            rounds = store.rounds(each.campaign.id)
            shown.rows(f"Campaign {each.campaign.id}", [
                ("question", each.campaign.question or "–"),
                ("ledger", each.ledger or "none"),
                *((f"round {found.number} of {each.campaign.rounds}", _standing(each, found)) for found in rounds),
            ])  # fmt: skip
        if not accepted and not json:
            shown.say("No campaign was accepted here.")


@app.command()
def close(
    campaign: CampaignId,
    state: StateDirectory,
    keys: KeysDirectory = None,
    database: Database = None,
    json: options.Json = False,
) -> None:
    """At the shuffler: end the round that is open, before its time. The minimum holds all the same."""
    with _keeping(Place.of(state, keys, database)) as keeper:
        accepted, found = _found(keeper, campaign)
        keeper.close_now(found, ObservedTime(state).look().now)
        _tell_round(keeper.store.rounds(accepted.campaign.id)[found.number - 1], json)


@app.command()
def expire(
    campaign: CampaignId,
    state: StateDirectory,
    keys: KeysDirectory = None,
    database: Database = None,
    json: options.Json = False,
) -> None:
    """At the shuffler: give up the round that is open. What was sent is destroyed, and nothing is handed on."""
    with _keeping(Place.of(state, keys, database)) as keeper:
        accepted, found = _found(keeper, campaign)
        keeper.expire(accepted, found)
        _tell_round(keeper.store.rounds(accepted.campaign.id)[found.number - 1], json)


@app.command()
def clock(
    state: StateDirectory,
    keys: KeysDirectory = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Rely on the machine's clock as it is now; look at it first.")
    ] = False,
    json: options.Json = False,
) -> None:
    """At the shuffler: whether the machine's clock goes with the time that passed. Rounds wait where it does not."""
    _ = Place.of(state, keys).identity
    observed = ObservedTime(state)
    if confirm:
        observed.confirm()
    moment = observed.look()
    if json:
        typer.echo(json_text({"now": moment.now, "jump": moment.jump}))
    elif moment.jump:
        ahead = "ahead of" if moment.jump > 0 else "behind"
        shown.say(
            f"The clock is {abs(moment.jump):,} seconds {ahead} the time that passed; for rounds it is "
            f"{utc(moment.now)}. If the clock is right, and the machine was off or its clock wrong before, run this "
            f"with --confirm."
        )
    else:
        shown.say(f"The clock goes with the time that passed: it is {utc(moment.now)}.")


@contextmanager
def _keeping(place: Place) -> Iterator[Keeper]:
    """Steps of rounds, while no other process takes any."""
    _ = place.identity
    try:
        with place.room(), closing(place.store()) as store, place.alone(), store.alone():
            yield Keeper(place, store, None)
    except BlockingIOError:
        raise ValueError("campaign: another process is closing rounds there; try again when it is done.") from None


def _found(keeper: Keeper, id_: str) -> tuple[Accepted, Round]:
    """A campaign and its last round, by the beginning of its id."""
    known = [each for each in keeper.own() if each.campaign.id.startswith(id_)]
    if len(known) != 1:
        raise ValueError(f"campaign: expected the id of one campaign of this shuffler, or its beginning, got {id_!r}.")
    return known[0], keeper.store.rounds(known[0].campaign.id)[-1]


def _listed(accepted: Accepted, store: Store) -> dict[str, Any]:
    """A campaign as JSON has it; how many took part once that may be known."""
    campaign = accepted.campaign
    rounds = [round_told(campaign, found) for found in store.rounds(campaign.id)]
    return {"id": campaign.id, "question": campaign.question, "ledger": accepted.ledger, "rounds": rounds}


def _standing(accepted: Accepted, found: Round) -> str:
    told = round_told(accepted.campaign, found)
    until = f" until {utc(found.closes)}" if found.state == "open" else ""
    return f"{found.state}{until}" + (f", {told['users']:,} took part" if "users" in told else "")


def _tell_round(found: Round, json: bool) -> None:
    if json:
        told = {"campaign": found.campaign, "round": found.number, "state": found.state, "closes": found.closes}
        typer.echo(json_text(told))
    else:
        until = f", until {utc(found.closes)}"
        shown.say(
            f"Round {found.number} of campaign {found.campaign} is {found.state}{until * (found.state == 'open')}."
        )


# --- words ------------------------------------------------------------------------------------------------------------


def _identity(path: Path) -> bytes:
    try:
        text = json_format.loads(path.read_text("utf-8"))["ed25519"]
    except OSError as error:
        raise ValueError(f"campaign: cannot read {path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"campaign: {path} must hold what `shuffledp keys new --shuffler` printed.") from None
    return from_text("campaign", "the shuffler's identity", text, KEY_BYTES)


def _admission(issuer: str, path: Path | None) -> PrivateTokens | None:
    if (path is None) != (not issuer):
        raise ValueError("campaign: give --issuer and --issuer-key together, or neither.")
    if path is None:
        return None
    try:
        return PrivateTokens(issuer, IssuerKey.read(path.read_bytes()))
    except OSError as error:
        raise ValueError(f"campaign: cannot read {path}: {error.strerror}.") from None


def _tell(campaign: Campaign, json: bool) -> None:
    if json:
        module = {"file": MODULE, "integrity": content(MODULE).integrity, "runs": bool(campaign.recipe)}
        typer.echo(json_text({"id": campaign.id, "campaign": campaign.document, "browser": module}))
        return
    plan = campaign.plan
    local = plan.mechanism.local_epsilon
    analyst, shuffler = (name or "not named" for name in campaign.operators)
    shown.rows(f"Campaign {campaign.id}", [
        ("asks for", plan.task.name + (f": {campaign.question}" if campaign.question else "")),
        ("promises", f"ε = {rounded_up(campaign.promised)} at δ = {plan.delta:g}, if {plan.fewest:,} take part"
                     + (f", {plan.colluding:,} of them colluding" if plan.colluding else "")),
        ("if shuffler and analyst are one", "nothing" if local is None else f"ε = {rounded_up(local)} (local)"),
        ("analyst", analyst),
        ("shuffler", shuffler),
        ("admits", "everybody" if campaign.admission is None else "people with a token of its issuer, once a round"),
        ("each client sends", f"{campaign.report_bytes:,} bytes"),
        ("a round takes", f"at most {campaign.capacity:,} reports"),
        ("in browsers", f"/v1/{MODULE}" if campaign.recipe else f"no: {plan.mechanism.name} does not run there"),
    ])  # fmt: skip
    if campaign.recipe:
        # On a line of its own, to be copied.
        shown.say(f'integrity="{content(MODULE).integrity}"')
