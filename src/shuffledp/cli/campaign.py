"""The commands around the shuffler: ``shuffledp keys``, ``campaign``, ``send`` and ``receive``."""

from __future__ import annotations

import json as json_format
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from shuffledp._core.formatting import format_json, format_rounded_up
from shuffledp.cli import options, output
from shuffledp.cli.app import UniqueOptionsGroup
from shuffledp.cli.collection import RoundOfMessages
from shuffledp.cli.ledger import LedgerOption, NoLedger, resolve_ledger
from shuffledp.cli.options import (
    CampaignFile,
    CampaignId,
    InputOptions,
    StateDirectory,
    takes_input,
)
from shuffledp.cli.output import ProgressBars
from shuffledp.cli.serve import Database, KeysDirectory
from shuffledp.planning.plan import Plan
from shuffledp.service import crypto
from shuffledp.service.batch_receiver import fetch_and_open, receive
from shuffledp.service.browser.assets import MODULE_NAME, load_static_file
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import KEY_BYTES, AnalystKey, ShufflerKey, decode_base64url
from shuffledp.service.rounds import RoundManager, TrustedClock
from shuffledp.service.server import describe_round
from shuffledp.service.stores import AcceptedCampaign, Round, ShufflerPaths, Store, format_utc
from shuffledp.service.table_sender import send
from shuffledp.service.tokens import IssuerKey, PrivateTokens

campaign_app = typer.Typer(
    cls=UniqueOptionsGroup,
    help="Create campaigns, and run them at the shuffler.",
    add_completion=False,
    rich_markup_mode=None,
)
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def parse_duration(name: str, text: str) -> int:
    """Parses a duration such as 7d, 12h, 30m or 90s into seconds."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if found is None:
        raise ValueError(
            f"campaign: {name} must be a number of days, hours, minutes or seconds, such as 7d, got {text!r}."
        )
    return int(found[1]) * UNIT_SECONDS[found[2]]


@campaign_app.command()
def create(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan file.")],
    analyst_key: Annotated[Path, typer.Option("--analyst-key", help="The analyst's key file.")],
    shuffler: Annotated[Path, typer.Option("--shuffler", help="A file of what `keys new --shuffler` printed.")],
    out: Annotated[Path, typer.Option("--out", help="A new file for the campaign.")],
    url: Annotated[str, typer.Option("--url", help="The https address at which clients reach the shuffler.")] = "",
    analyst: Annotated[str, typer.Option("--analyst", help="Name of the analyst.")] = "",
    operator: Annotated[str, typer.Option("--operator", help="Name of the shuffler's operator.")] = "",
    question: Annotated[str, typer.Option("--question", help="The question to the users, in plain words.")] = "",
    window: Annotated[str, typer.Option("--window", help="Duration of a round: 7d, 12h, 30m or 90s.")] = "7d",
    extensions: Annotated[
        int, typer.Option("--extensions", help="Number of extensions if too few users took part.")
    ] = 1,
    retention: Annotated[str, typer.Option("--retention", help="Time for which an unfetched batch is kept.")] = "30d",
    capacity: Annotated[
        int | None,
        typer.Option(
            "--capacity",
            help="Maximum number of reports of a round; by default ten times the planned users, at least 100,000.",
        ),
    ] = None,
    issuer: Annotated[str, typer.Option("--issuer", help="Issuer of the tokens that admit users.")] = "",
    issuer_key: Annotated[
        Path | None, typer.Option("--issuer-key", help="The issuer's public key, as it publishes it (DER).")
    ] = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Create a campaign from a plan, with the plan's minimum and colluding users."""
    new_campaign = Campaign.create(
        Plan.load(plan),
        AnalystKey.load(analyst_key),
        _read_identity(shuffler),
        url=url,
        operators=(analyst, operator),
        window=parse_duration("window", window),
        extensions=extensions,
        retention=parse_duration("retention", retention),
        question=question,
        admission=_read_admission(issuer, issuer_key),
        capacity=capacity,
    )
    new_campaign.save(out)
    if not json:
        output.print_written_path("campaign", out)
    _print_campaign(new_campaign, json)


@campaign_app.command("show")
def show_campaign(
    campaign: CampaignFile, mechanism_file: options.MechanismFile = None, json: options.Json = False
) -> None:
    """Show the guarantee of a campaign and its parties."""
    _print_campaign(Campaign.load(campaign), json)


# --- Campaigns at the shuffler ---


@campaign_app.command()
def accept(
    campaign: CampaignFile,
    state: StateDirectory,
    key: Annotated[Path, typer.Option("--key", help="The shuffler's key file.")],
    keys: KeysDirectory = None,
    database: Database = None,
    ledger: LedgerOption = None,
    no_ledger: NoLedger = False,
    without_local: Annotated[
        bool, typer.Option("--without-local", help="Accept messages that have no guarantee without the shuffler.")
    ] = False,
    json: options.Json = False,
) -> None:
    """At the shuffler: check the guarantee of a campaign, and open its first round."""
    loaded_campaign = Campaign.load(campaign)
    ledger_location = resolve_ledger("campaign", ledger, no_ledger, loaded_campaign.plan)
    loaded_campaign.prove_promise(without_local=without_local)
    identity = ShufflerKey.load(key)
    # Checked before the directory is created, because one made with the wrong key would later refuse the right one.
    loaded_campaign.check_shuffler(identity)
    paths = ShufflerPaths.from_directories(state, keys, database)
    paths.create_directories(identity)
    with _open_round_manager(paths) as manager:
        opened = manager.accept(
            AcceptedCampaign(
                loaded_campaign, None if ledger_location is None else os.fspath(ledger_location.resolve())
            ),
            TrustedClock(state).read().now,
        )
    _print_round(opened, json)


@campaign_app.command("list")
def all_campaigns(
    state: StateDirectory, keys: KeysDirectory = None, database: Database = None, json: options.Json = False
) -> None:
    """At the shuffler: list its campaigns and the state of their rounds."""
    paths = ShufflerPaths.from_directories(state, keys, database)
    _ = paths.signing_key
    with closing(paths.open_store()) as store:
        accepted = RoundManager(paths, store).campaigns()
        if json:
            typer.echo(format_json({"campaigns": [_campaign_document(each, store) for each in accepted]}))
        for each in () if json else accepted:
            rounds = store.rounds(each.campaign.id)
            output.print_rows(
                f"Campaign {each.campaign.id}",
                [
                    ("question", each.campaign.question or "–"),
                    ("ledger", each.ledger or "none"),
                    *(
                        (f"round {found.number} of {each.campaign.rounds}", _describe_round(each, found))
                        for found in rounds
                    ),
                ],
            )
        if not accepted and not json:
            output.print_text("No campaign was accepted here.")


@campaign_app.command()
def close(
    campaign: CampaignId,
    state: StateDirectory,
    keys: KeysDirectory = None,
    database: Database = None,
    json: options.Json = False,
) -> None:
    """At the shuffler: close the open round early. The minimum still holds."""
    with _open_round_manager(ShufflerPaths.from_directories(state, keys, database)) as manager:
        accepted, found = _find_campaign(manager, campaign)
        manager.close_now(found, TrustedClock(state).read().now)
        _print_round(manager.store.rounds(accepted.campaign.id)[found.number - 1], json)


@campaign_app.command()
def expire(
    campaign: CampaignId,
    state: StateDirectory,
    keys: KeysDirectory = None,
    database: Database = None,
    json: options.Json = False,
) -> None:
    """At the shuffler: give up the open round. Its reports are destroyed, and nothing is passed on."""
    with _open_round_manager(ShufflerPaths.from_directories(state, keys, database)) as manager:
        accepted, found = _find_campaign(manager, campaign)
        manager.give_up_round(accepted, found)
        _print_round(manager.store.rounds(accepted.campaign.id)[found.number - 1], json)


@campaign_app.command()
def clock(
    state: StateDirectory,
    keys: KeysDirectory = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Trust the machine's clock as it is now; check it first.")
    ] = False,
    json: options.Json = False,
) -> None:
    """At the shuffler: compare the machine's clock with the time that passed. Rounds wait if they differ."""
    _ = ShufflerPaths.from_directories(state, keys).signing_key
    observed = TrustedClock(state)
    if confirm:
        observed.confirm()
    moment = observed.read()
    if json:
        typer.echo(format_json({"now": moment.now, "jump": moment.jump}))
    elif moment.jump:
        ahead = "ahead of" if moment.jump > 0 else "behind"
        output.print_text(
            f"The clock is {abs(moment.jump):,} seconds {ahead} the time that passed; for rounds it is "
            f"{format_utc(moment.now)}. If the clock is right, and the machine was off or its clock wrong before, run "
            "this with --confirm."
        )
    else:
        output.print_text(f"The clock goes with the time that passed: it is {format_utc(moment.now)}.")


@contextmanager
def _open_round_manager(paths: ShufflerPaths) -> Iterator[RoundManager]:
    """Opens the shuffler's store for changes of rounds, and keeps other processes from changing them meanwhile."""
    _ = paths.signing_key
    try:
        with paths.release_reserve(), closing(paths.open_store()) as store, paths.lock_rounds(), store.lock_rounds():
            yield RoundManager(paths, store, None)
    except BlockingIOError:
        raise ValueError("campaign: another process is closing rounds there; try again when it is done.") from None


def _find_campaign(manager: RoundManager, id_: str) -> tuple[AcceptedCampaign, Round]:
    """Returns the campaign whose id begins with `id_`, and its last round."""
    known = [each for each in manager.campaigns() if each.campaign.id.startswith(id_)]
    if len(known) != 1:
        raise ValueError(f"campaign: expected the id of one campaign of this shuffler, or its beginning, got {id_!r}.")
    return known[0], manager.store.rounds(known[0].campaign.id)[-1]


def _campaign_document(accepted: AcceptedCampaign, store: Store) -> dict[str, Any]:
    """Returns a campaign as JSON; a round's number of users is included once it may be known."""
    campaign = accepted.campaign
    rounds = [describe_round(campaign, found) for found in store.rounds(campaign.id)]
    return {"id": campaign.id, "question": campaign.question, "ledger": accepted.ledger, "rounds": rounds}


def _describe_round(accepted: AcceptedCampaign, found: Round) -> str:
    document = describe_round(accepted.campaign, found)
    until = f" until {format_utc(found.closes)}" if found.state == "open" else ""
    return f"{found.state}{until}" + (f", {document['users']:,} took part" if "users" in document else "")


def _print_round(found: Round, json: bool) -> None:
    if json:
        document = {"campaign": found.campaign, "round": found.number, "state": found.state, "closes": found.closes}
        typer.echo(format_json(document))
    else:
        until = f", until {format_utc(found.closes)}"
        output.print_text(
            f"Round {found.number} of campaign {found.campaign} is {found.state}{until * (found.state == 'open')}."
        )


# --- Campaign files ---


def _read_identity(path: Path) -> bytes:
    try:
        text = json_format.loads(path.read_text("utf-8"))["ed25519"]
    except OSError as error:
        raise ValueError(f"campaign: cannot read {path}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"campaign: {path} must hold what `shuffledp keys new --shuffler` printed.") from None
    return decode_base64url("campaign", "the shuffler's identity", text, KEY_BYTES)


def _read_admission(issuer: str, path: Path | None) -> PrivateTokens | None:
    if (path is None) != (not issuer):
        raise ValueError("campaign: give --issuer and --issuer-key together, or neither.")
    if path is None:
        return None
    try:
        return PrivateTokens(issuer, IssuerKey.from_der(path.read_bytes()))
    except OSError as error:
        raise ValueError(f"campaign: cannot read {path}: {error.strerror}.") from None


def _print_campaign(campaign: Campaign, json: bool) -> None:
    if json:
        module = {
            "file": MODULE_NAME,
            "integrity": load_static_file(MODULE_NAME).integrity,
            "runs": bool(campaign.recipe),
        }
        typer.echo(format_json({"id": campaign.id, "campaign": campaign.document, "browser": module}))
        return
    plan = campaign.plan
    local = plan.mechanism.local_epsilon
    analyst, shuffler = (name or "not named" for name in campaign.operators)
    output.print_rows(
        f"Campaign {campaign.id}",
        [
            ("asks for", plan.task.name + (f": {campaign.question}" if campaign.question else "")),
            (
                "promises",
                f"ε = {format_rounded_up(campaign.promised_epsilon)} at δ = {plan.delta:g}, if {plan.fewest:,} take "
                f"part" + (f", {plan.colluding:,} of them colluding" if plan.colluding else ""),
            ),
            (
                "if shuffler and analyst are one",
                "nothing" if local is None else f"ε = {format_rounded_up(local)} (local)",
            ),
            ("analyst", analyst),
            ("shuffler", shuffler),
            (
                "admits",
                "everybody" if campaign.admission is None else "people with a token of its issuer, once a round",
            ),
            ("each client sends", f"{campaign.report_bytes:,} bytes"),
            ("a round takes", f"at most {campaign.capacity:,} reports"),
            (
                "in browsers",
                f"/v1/{MODULE_NAME}" if campaign.recipe else f"no: {plan.mechanism.name} does not run there",
            ),
        ],
    )
    if campaign.recipe:
        # On a line of its own, so that it can be copied.
        output.print_text(f'integrity="{load_static_file(MODULE_NAME).integrity}"')


# --- shuffledp keys ---


keys_app = typer.Typer(
    cls=UniqueOptionsGroup,
    help="Create and show the keys of analysts and shufflers.",
    add_completion=False,
    rich_markup_mode=None,
)
KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The key file.")]


@keys_app.command()
def new(
    file: KeyFile,
    shuffler: Annotated[
        bool, typer.Option("--shuffler", help="A shuffler's key, which signs; else an analyst's.")
    ] = False,
) -> None:
    """Create a key in a new file and print its public part. Messages sealed to a lost key are lost."""
    key = ShufflerKey.new() if shuffler else AnalystKey.new()
    key.save(file)
    output.print_written_path("key", file)
    typer.echo(format_json(key.public_document))


@keys_app.command("show")
def show_key(file: KeyFile) -> None:
    """Print the public part of a key."""
    typer.echo(format_json(crypto.load_key(file).public_document))


# --- shuffledp send ---


Url = Annotated[str | None, typer.Option("--url", help="Address of the shuffler; by default that of the campaign.")]


@takes_input
def send_command(
    campaign: CampaignFile,
    source: InputOptions,
    spool: Annotated[
        Path, typer.Option("--spool", help="A new file for the sealed reports; that of a killed run is resumed.")
    ],
    url: Url = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Randomize, seal and send the rows of a table, in the role of the encoder. A killed run can be resumed."""
    if source.rows_per_user != 1:
        raise ValueError("send: a person takes part once in a round; --rows-per-user must be 1.")
    sent = send(
        campaign, source.paths, source.columns, spool=spool, url=url, user=source.user, rules=source.rules,
        delimiter=source.delimiter, gather=source.gather, progress=ProgressBars(),
    )  # fmt: skip
    if json:
        typer.echo(format_json({"reports": sent.reports, "round": sent.round_number}))
    else:
        output.print_text(
            f"{sent.reports:,} reports were taken in round {sent.round_number}; keep {spool}.sent as a mark of that."
        )


# --- shuffledp receive ---


def receive_command(
    campaign: CampaignFile,
    key: Annotated[Path, typer.Option("--key", help="The analyst's key file.")],
    out: Annotated[Path, typer.Option("--out", help="A new directory for the opened messages.")],
    input_: Annotated[
        Path | None, typer.Option("--input", help="The directory from `shuffle`; without it, fetch from the shuffler.")
    ] = None,
    url: Url = None,
    round_number: RoundOfMessages = None,
    mechanism_file: options.MechanismFile = None,
    json: options.Json = False,
) -> None:
    """Open the sealed messages of a campaign for `estimate`, in the role of the analyst."""
    loaded_campaign, analyst_key = Campaign.load(campaign), AnalystKey.load(key)
    if input_ is not None and url is not None:
        raise ValueError("receive: give either --input or --url, not both.")
    if input_ is None:
        manifest = fetch_and_open(
            loaded_campaign,
            analyst_key,
            out=out,
            url=url,
            round_number=round_number,
            workers=None,
            progress=ProgressBars(),
        )
    else:
        manifest = receive(
            loaded_campaign,
            analyst_key,
            input_,
            out=out,
            round_number=round_number,
            workers=None,
            progress=ProgressBars(),
        )
    if json:
        typer.echo(
            format_json(
                {"messages": manifest.messages, "refused": manifest.refused, "users": manifest.users, "out": str(out)}
            )
        )
        return
    output.print_text(f"{manifest.messages:,} messages in {out}: `shuffledp estimate PLAN --input {out}` reads them.")
    if manifest.refused:
        output.print_text(
            f"{manifest.refused:,} did not open, or were there twice; each takes one user off those who are counted."
        )
