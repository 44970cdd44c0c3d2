"""The client of one person: randomises their value, seals it, sends it to the shuffler, and tracks their privacy loss.

The person's own ledger is a directory with one file for each answered round of a campaign. The file is written before
anything is sent and is never replaced by other randomness, so a value is randomised once even if the client is killed
or run again.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self
from urllib.parse import SplitResult, urlsplit

import numpy as np

from shuffledp._core import validation
from shuffledp._core.errors import GuaranteeTooWeak, ShuffledpError
from shuffledp._core.formatting import format_rounded_up
from shuffledp._core.validation import Bytes
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import REPORTS_MEDIA_TYPE
from shuffledp.service.notices_and_statements import MAX_NOTICE_BYTES, RoundNotice
from shuffledp.service.sealing import seal_reports
from shuffledp.storage import durable_files

# --- HTTP requests to the shuffler ---

MAX_ATTEMPTS, INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 6, 0.2, 5.0
TIMEOUT_SECONDS = 30.0
MAX_ERROR_BODY_BYTES = 1 << 12
"""Maximum number of bytes read from an error response, or from a response whose body is not needed."""
RETRY_STATUSES = (408, 429, 500, 502, 503, 504)
"""HTTP statuses after which a request is retried."""


@dataclass(frozen=True)
class ShufflerResponse:
    """A response of the shuffler."""

    status: int
    content: bytes


def parse_address(url: str) -> SplitResult:
    """Returns the parts of a shuffler's address: HTTPS, or HTTP on this machine, with only a host, a port and a path.

    Over plain HTTP anyone on the network path could see who takes part and replace the round that they seal to. A user
    name and password would be readable by everybody, because the campaign file is public.

    Raises:
        ValueError: If the address has another form.
    """
    expected = "shuffler: expected an address such as https://shuffler.example"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    # The message does not repeat the address, which may contain a password.
    if "@" in url:
        raise ValueError(
            f"{expected}, got one with a user name before @; leave it out, because the campaign is public."
        )
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or set(url) & set(" \\"):
        raise ValueError(f"{expected}, got {validation.format_value(url)}.")
    if "?" in url or "#" in url:
        raise ValueError(f"{expected}, got {validation.format_value(url)}; leave out everything from ? or # on.")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError(
            f"{expected}, got {validation.format_value(url)}; plain http is for this machine alone (127.0.0.1, [::1], "
            f"localhost): put TLS in front of the shuffler, and use its https address."
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass
class HttpClient:
    """A connection to the shuffler at ``url``; all requests are idempotent, so failed ones are retried."""

    url: str
    max_attempts: int = MAX_ATTEMPTS
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._parts = parse_address(self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        at_most: int = MAX_ERROR_BODY_BYTES,
    ) -> ShufflerResponse:
        """Returns the shuffler's response.

        Raises:
            ValueError: If there is none after ``max_attempts`` attempts, or if it is longer than ``at_most`` bytes.
        """
        pause, reason = INITIAL_BACKOFF_SECONDS, ""
        for attempt in range(self.max_attempts):
            if attempt:
                time.sleep(pause)
                pause = min(2 * pause, MAX_BACKOFF_SECONDS)
            try:
                answer = self._request_once(method, path, body, headers or {}, at_most)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                reason = getattr(error, "strerror", None) or type(error).__name__
                continue
            if answer.status not in RETRY_STATUSES:
                return answer
            reason = f"status {answer.status}"
        raise ValueError(f"shuffler: no answer from {self.url}: {reason}; try again later, nothing is lost.")

    def _request_once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], at_most: int
    ) -> ShufflerResponse:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
            host = self._parts.hostname
            assert host is not None, "it was checked"
            self._connection = kind(host, self._parts.port, timeout=TIMEOUT_SECONDS)
        # All clients send the same headers.
        self._connection.request(method, self._parts.path.rstrip("/") + path, body, dict(headers))
        answer = self._connection.getresponse()
        return ShufflerResponse(
            answer.status, self._read_body(answer, at_most if answer.status < 400 else MAX_ERROR_BODY_BYTES)
        )

    def _read_body(self, answer: http.client.HTTPResponse, at_most: int) -> bytes:
        """Reads at most ``at_most`` bytes of the body, whatever its declared length; truncates longer error bodies."""
        content = answer.read(at_most + 1)
        if len(content) > at_most:
            # Does not wait for the rest.
            self.close()
            if answer.status < 400:
                raise ValueError(
                    f"shuffler: an answer from {self.url} is longer than the permitted {at_most:,} bytes; do not "
                    f"rely on it."
                )
        elif answer.length:
            raise http.client.IncompleteRead(content, answer.length)
        return content[:at_most]

    def close(self) -> None:
        """Closes the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# --- Open rounds and delivery of reports ---

CREATED, OK, NOT_FOUND, GONE, INSUFFICIENT_STORAGE = 201, 200, 404, 410, 507


class RoundClosed(ShuffledpError):
    """The round of the reports is closed, or the campaign has no open round."""


def fetch_open_round(campaign: Campaign, link: HttpClient) -> RoundNotice:
    """Returns the signed notice of the campaign's open round.

    Raises:
        RoundClosed: If no round is open.
        ValueError: If the shuffler does not know the campaign, or the notice is not signed by it.
    """
    answer = link.request("GET", f"/v1/campaigns/{campaign.id}/round", at_most=MAX_NOTICE_BYTES)
    if answer.status == GONE:
        raise RoundClosed("client: no round of the campaign is open now.")
    if answer.status != OK:
        raise ValueError(f"client: the shuffler at {link.url} does not know the campaign.")
    return RoundNotice.from_signed(campaign, answer.content)


def post_reports(campaign: Campaign, number: int, link: HttpClient, reports: bytes) -> None:
    """Sends reports and returns once the shuffler has stored them; sending the same bytes again has no effect.

    Raises:
        RoundClosed: If the round is closed.
        ValueError: If the round is full, or the shuffler refuses the reports.
    """
    path = f"/v1/campaigns/{campaign.id}/rounds/{number}/reports"
    answer = link.request("POST", path, reports, {"Content-Type": REPORTS_MEDIA_TYPE})
    if answer.status == GONE:
        raise RoundClosed(f"client: round {number} of the campaign is closed.")
    if answer.status == INSUFFICIENT_STORAGE:
        raise ValueError(
            f"client: round {number} is full: it has as many reports as its campaign accepts; tell the operator of "
            f"the shuffler at {link.url}."
        )
    if answer.status != CREATED:
        raise ValueError(f"client: the shuffler at {link.url} refuses the reports with status {answer.status}.")


# --- The person's ledger ---

FORMAT, VERSION = "shuffledp answer", 1
ANSWER_SUFFIX = ".answer"
DEFAULT_DELTA = 1e-6


@dataclass(frozen=True)
class SealedAnswer:
    """A sealed answer to one round; the sealed bytes are dropped once the shuffler has confirmed them."""

    campaign: Campaign
    number: int
    report: str
    """The sealed bytes in hexadecimal; empty once confirmed."""
    due_time: int
    """Earliest time to send it, in seconds since 1970."""

    @property
    def file_name(self) -> str:
        return f"{self.campaign.id}-{self.number}{ANSWER_SUFFIX}"

    def to_bytes(self) -> bytes:
        """Returns the content of the answer's file."""
        document = {"format": FORMAT, "version": VERSION, "campaign": self.campaign.content.decode(),
                    "round": self.number, "report": self.report, "due": self.due_time}  # fmt: skip
        return json.dumps(document).encode()


@dataclass(frozen=True)
class Wallet:
    """The ledger of one person: all answers that they have given, and their privacy budget.

    Args:
        directory: Directory of the answers' files.
        epsilon: Largest total ε over all campaigns that the person accepts.
        delta: The δ at which the total is computed.
        verify: If True, the privacy curves of the answered rounds are composed, which loads the bounds. If False, the ε
            that each campaign promises for all of its rounds is trusted and added up (basic composition).
    """

    directory: Path
    epsilon: float
    delta: float
    verify: bool = True

    @classmethod
    def open_directory(
        cls, directory: str | os.PathLike[str], epsilon: float, delta: float = DEFAULT_DELTA, *, verify: bool = True
    ) -> Wallet:
        """Opens the wallet in a directory, which is created if it does not exist."""
        path = Path(directory).expanduser()
        durable_files.make_directory(path, durable_files.OWNER_ONLY_DIRECTORY)
        durable_files.check_owned_directory(path.resolve())
        limit = validation.positive_finite("wallet", "epsilon", epsilon)
        return cls(path, limit, validation.open_probability("wallet", "delta", delta), verify)

    def answers(self) -> list[SealedAnswer]:
        """Returns all answers, confirmed ones included."""
        return [self._read_answer(path) for path in sorted(self.directory.glob(f"*{ANSWER_SUFFIX}"))]

    def answer(self, campaign: Campaign, number: int) -> SealedAnswer | None:
        """Returns the answer to one round, or None."""
        path = self.directory / f"{campaign.id}-{number}{ANSWER_SUFFIX}"
        return self._read_answer(path) if path.exists() else None

    def total_epsilon(self, more: Campaign | None = None) -> float:
        """Returns the total ε of all answered rounds at the wallet's δ, each with its campaign's minimum of users.

        Includes one round of ``more`` if given. Infinite if ``verify`` is False and the campaigns' δ add up to more
        than the wallet's.
        """
        campaigns = [each.campaign for each in self.answers()] + ([] if more is None else [more])
        return (_compose_epsilon if self.verify else _add_promised_epsilon)(campaigns, self.delta)

    def add_answer(self, answer: SealedAnswer) -> SealedAnswer:
        """Stores an answer before it is sent; returns the stored one, which is the earlier answer if there was one.

        Raises:
            GuaranteeTooWeak: If the answer would exceed the budget.
            ValueError: If another process is using the wallet.
        """
        try:
            with durable_files.open_locked(self.directory / "lock"):
                self._check_budget(answer.campaign)
                durable_files.create_atomically(self.directory / answer.file_name, answer.to_bytes())
        except BlockingIOError:
            raise ValueError("wallet: another process is using it; try again when that has finished.") from None
        stored = self.answer(answer.campaign, answer.number)
        assert stored is not None, "it was just written"
        return stored

    def _check_budget(self, campaign: Campaign) -> None:
        total = self.total_epsilon(campaign)
        if math.isinf(total) and not self.verify:
            raise GuaranteeTooWeak(
                f"wallet: the δ of all campaigns would add up to more than your δ = {self.delta:g}; nothing was sent; "
                f"use a wallet with verify=True, which composes them more tightly."
            )
        if total > self.epsilon:
            raise GuaranteeTooWeak(
                f"wallet: this would bring your total to ε = {format_rounded_up(total)} at δ = {self.delta:g}, above "
                f"your limit {self.epsilon:g}; nothing was sent."
            )

    def confirm(self, answer: SealedAnswer) -> None:
        """Records that the shuffler has stored the answer: drops its bytes, keeps the entry."""
        durable_files.replace_atomically(self.directory / answer.file_name, replace(answer, report="").to_bytes())

    def _read_answer(self, path: Path) -> SealedAnswer:
        try:
            document: dict[str, Any] = json.loads(path.read_bytes())
            if (document["format"], document["version"]) != (FORMAT, VERSION):
                raise ValueError
            campaign = Campaign.parse(document["campaign"].encode(), whole_plan=self.verify)
            bytes.fromhex(document["report"])
            return SealedAnswer(campaign, int(document["round"]), document["report"], int(document["due"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"wallet: {path} is damaged; your total ε can no longer be computed.") from None


def _compose_epsilon(campaigns: Sequence[Campaign], delta: float) -> float:
    """Returns ε at δ of one round of each campaign by composing their privacy curves, which loads the bounds."""
    from shuffledp.ledger.collection_guarantee import Guarantee, composed_epsilon

    return composed_epsilon([Guarantee(each.plan, each.plan.fewest).curve for each in campaigns], delta)


def _add_promised_epsilon(campaigns: Sequence[Campaign], delta: float) -> float:
    """Returns ε at δ of all rounds of each campaign by basic composition of the promised ε, rounded up."""
    distinct = {each.id: each for each in campaigns}.values()
    if sum(Fraction(each.device_plan.delta) for each in distinct) > Fraction(delta):
        return math.inf
    exact = sum((Fraction(each.promised_epsilon) for each in distinct), Fraction(0))
    total = float(exact)
    return total if Fraction(total) >= exact else math.nextafter(total, math.inf)


ERROR_PREFIX = "client"


# --- The client ---


class Client:
    """The client of one person in one campaign.

    Args:
        campaign: The campaign or the path of its file.
        wallet: A wallet or its directory, which belongs to this person: it tracks their total ε over all campaigns.
        limit: Largest total ε, at ``delta``, that the person accepts. Ignored if ``wallet`` is a ``Wallet``.
        delta: The δ at which the total is computed. Ignored if ``wallet`` is a ``Wallet``.
        local_limit: Largest local ε, which holds without trust in the shuffler, that the person accepts; None accepts
            any campaign, including those without a local guarantee.
        url: Address of the shuffler; by default the one in the campaign.
        admit: Function of the campaign and the round number that returns this person's token; needed if the campaign
            restricts who may take part.
        verify: If True, the campaign's ε is proved on this device before anything is sent and the privacy curves of
            all answers are composed, which loads planner and bounds. If False, the ε that campaigns promise is trusted
            and added up, as in the browser client, and neither is loaded.

    Raises:
        GuaranteeTooWeak: If the local ε is above ``local_limit``, or ``local_limit`` is given and the mechanism has no
            local ε.
        ForeignFile: If another user owns or can write to the wallet's directory.
        ValueError: If the campaign cannot be read, its ε is not proved, the shuffler's address is not usable, or the
            limits are out of range.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> from shuffledp.service.crypto import AnalystKey, ShufflerKey
    >>> plan = sdp.Plan(sdp.tasks.Frequency(["red", "green"]), sdp.KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> campaign = Campaign.create(
    ...     plan, AnalystKey.new(), ShufflerKey.new().identity, url="https://shuffler.example",
    ...     operators=("Institute", "House"), window=3600,
    ... )
    >>> with tempfile.TemporaryDirectory() as room:
    ...     client = sdp.Client(campaign, wallet=room, limit=2.0)
    ...     client.spent
    0.0
    """

    def __init__(
        self,
        campaign: Campaign | str | os.PathLike[str],
        wallet: str | os.PathLike[str] | Wallet,
        *,
        limit: float = 1.0,
        delta: float = DEFAULT_DELTA,
        local_limit: float | None = None,
        url: str | None = None,
        admit: Callable[[Campaign, int], bytes] | None = None,
        verify: bool = True,
    ) -> None:
        self.campaign = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign, whole_plan=verify)
        self.wallet = (
            wallet if isinstance(wallet, Wallet) else Wallet.open_directory(Path(wallet), limit, delta, verify=verify)
        )
        self._admit = admit
        self._link = HttpClient(self.campaign.url if url is None else url)
        local = self.campaign.device_plan.mechanism.local_epsilon
        if local_limit is not None and (local is None or local > local_limit):
            raise GuaranteeTooWeak(
                f"{ERROR_PREFIX}: without the shuffler the campaign is less private than your limit; nothing was sent."
            )
        if verify:
            self.campaign.prove_promise(without_local=True)

    @property
    def spent(self) -> float:
        """Total ε of all answers so far, at the wallet's δ."""
        return self.wallet.total_epsilon()

    def send(self, value: Any) -> int:
        """Answers the open round and sends the answer immediately.

        If this round was answered before, ``value`` is ignored: the bytes of the earlier answer are sent again unless
        they are confirmed.

        Args:
            value: The person's value, as the campaign's task expects it.

        Returns:
            The number of the round.

        Raises:
            GuaranteeTooWeak: If the answer would exceed the person's limit; nothing is sent.
            RoundClosed: If no round is open.
            ValueError: If the value does not fit the task, the token does not fit the campaign, another process uses
                the wallet, or the shuffler cannot be reached or refuses the report.
        """
        with self._link:
            notice = fetch_open_round(self.campaign, self._link)
            self._send_answer(self._prepare_answer(value, notice, int(time.time())))
        return notice.number

    def prepare(self, value: Any) -> int:
        """Randomises and seals an answer to the open round, to be sent by ``deliver`` at a random time of the window.

        The random time hides when the person answered. If this round was answered before, ``value`` is ignored.

        Args:
            value: The person's value, as the campaign's task expects it.

        Returns:
            The earliest time to send the answer, in seconds since 1970.

        Raises:
            GuaranteeTooWeak: If the answer would exceed the person's limit; nothing is stored.
            RoundClosed: If no round is open.
            ValueError: If the value does not fit the task, the token does not fit the campaign, another process uses
                the wallet, or the shuffler cannot be reached.
        """
        with self._link:
            notice, now = fetch_open_round(self.campaign, self._link), int(time.time())
        last = max(now, now + int(0.9 * (notice.closes - now)))
        return self._prepare_answer(value, notice, random.SystemRandom().randint(now, last)).due_time

    def deliver(self, now: float | None = None) -> int:
        """Sends this campaign's answers that are due and not confirmed; answers to closed rounds are skipped.

        Args:
            now: Time in seconds since 1970 at which answers are due; by default the current time.

        Returns:
            The number of answers that the shuffler has confirmed in this call.

        Raises:
            ValueError: If the shuffler cannot be reached or refuses a report.
        """
        moment, sent = time.time() if now is None else now, 0
        for answer in self.wallet.answers():
            if answer.campaign == self.campaign and answer.report and answer.due_time <= moment:
                # An answer to a closed round still counts in the person's total.
                with self._link, suppress(RoundClosed):
                    self._send_answer(answer)
                    sent += 1
        return sent

    def _prepare_answer(self, value: Any, notice: RoundNotice, due: int) -> SealedAnswer:
        known = self.wallet.answer(self.campaign, notice.number)
        if known is not None:
            return known
        reports = seal_reports(self.campaign, notice, self._encode_value(value), self._request_token(notice.number))
        return self.wallet.add_answer(SealedAnswer(self.campaign, notice.number, reports[0].tobytes().hex(), due))

    def _request_token(self, number: int) -> Bytes | None:
        if self._admit is None or self.campaign.admission is None:
            return None
        return np.frombuffer(self._admit(self.campaign, number), dtype=np.uint8).reshape(1, -1)

    def _encode_value(self, value: Any) -> Bytes:
        """Returns the encoded messages of one value, read like a column with one row."""
        import pyarrow as pa

        from shuffledp.tasks.column_reader import ColumnReader
        from shuffledp.tasks.value_parsing import STRICT_RULES

        task, mechanism = self.campaign.device_plan.task, self.campaign.device_plan.mechanism
        try:
            column = pa.array([value])
        except (pa.ArrowException, TypeError):
            raise ValueError(f"{ERROR_PREFIX}: expected a value of the campaign's task, {task.name}.") from None
        values = ColumnReader(("value",), task, mechanism, STRICT_RULES).read_values(column)
        return np.ascontiguousarray(mechanism.pack(mechanism.encode(values)))

    def _send_answer(self, answer: SealedAnswer) -> None:
        if answer.report:
            post_reports(self.campaign, answer.number, self._link, bytes.fromhex(answer.report))
            self.wallet.confirm(answer)
