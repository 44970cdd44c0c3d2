"""A client that takes part in campaigns: it randomises once, seals, sends, and adds up what it has promised."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.array import Bytes
from shuffledp.collection.guarantee import TooWeak
from shuffledp.service import delivery
from shuffledp.service.campaign import Campaign
from shuffledp.service.delivery import RoundOver
from shuffledp.service.link import Link
from shuffledp.service.notice import Notice
from shuffledp.service.sealed_report import sealed_reports
from shuffledp.service.wallet import DELTA, Answered, Wallet

WHO = "client"


class Client:
    """One person's part in a campaign.

    ``campaign``: the campaign or its file. ``wallet``: a directory of the person's own, in which everything that she
    gives is added up over all campaigns; ``limit`` is the most that she will give, ε in all at ``delta``, and
    ``local_limit`` the most that she will rest on without the shuffler (None: she trusts it). ``url``: where the
    shuffler is, by default where the campaign says. ``admit``: where the campaign admits only some, a function that
    gets this person's token for a round of it.

    >>> import tempfile
    >>> import shuffledp as sdp
    >>> from shuffledp.service.key_file import AnalystKey, ShufflerKey
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
        delta: float = DELTA,
        local_limit: float | None = None,
        url: str | None = None,
        admit: Callable[[Campaign, int], bytes] | None = None,
    ) -> None:
        self.campaign = campaign if isinstance(campaign, Campaign) else Campaign.load(campaign)
        self.wallet = wallet if isinstance(wallet, Wallet) else Wallet.at(Path(wallet), limit, delta)
        self._admit = admit
        self._link = Link(self.campaign.url if url is None else url)
        local = self.campaign.plan.mechanism.local_epsilon
        if local_limit is not None and (local is None or local > local_limit):
            raise TooWeak(f"{WHO}: without the shuffler the campaign promises less than your limit; nothing was sent.")
        self.campaign.demand_kept(without_local=True)

    @property
    def spent(self) -> float:
        """ε of everything that was given so far, at the wallet's δ."""
        return self.wallet.spent()

    def send(self, value: Any) -> int:
        """Give an answer in the round that is open, now; returns the round.

        A value that was given in this round before is not randomised again: the same bytes are sent, if they were not
        confirmed yet, whatever ``value`` is.
        """
        with self._link:
            notice = delivery.open_round(self.campaign, self._link)
            self._deliver(self._put(value, notice, int(time.time())))
        return notice.number

    def prepare(self, value: Any) -> int:
        """Randomise and seal an answer, to be sent by ``deliver`` at a random time of the window; returns when.

        When somebody sends tells something about her day: a random time tells nothing.
        """
        with self._link:
            notice, now = delivery.open_round(self.campaign, self._link), int(time.time())
        last = max(now, now + int(0.9 * (notice.closes - now)))
        return self._put(value, notice, random.SystemRandom().randint(now, last)).due

    def deliver(self, now: float | None = None) -> int:
        """Send what is due and not confirmed; returns how many answers are confirmed now."""
        moment, sent = time.time() if now is None else now, 0
        for answer in self.wallet.answers():
            if answer.campaign == self.campaign and answer.report and answer.due <= moment:
                # A round that is over takes nothing any more; that it was answered stays, and counts.
                with self._link, suppress(RoundOver):
                    self._deliver(answer)
                    sent += 1
        return sent

    def _put(self, value: Any, notice: Notice, due: int) -> Answered:
        known = self.wallet.answer(self.campaign, notice.number)
        if known is not None:
            return known
        reports = sealed_reports(self.campaign, notice, self._wire(value), self._token(notice.number))
        return self.wallet.put(Answered(self.campaign, notice.number, reports[0].tobytes().hex(), due))

    def _token(self, number: int) -> Bytes | None:
        if self._admit is None or self.campaign.admission is None:
            return None
        return np.frombuffer(self._admit(self.campaign, number), dtype=np.uint8).reshape(1, -1)

    def _wire(self, value: Any) -> Bytes:
        """The messages of one value, as a column of one row has them."""
        import pyarrow as pa

        plan = self.campaign.plan
        try:
            column = pa.array([value])
        except (pa.ArrowException, TypeError):
            raise ValueError(f"{WHO}: expected a value of the campaign's task, {plan.task.name}.") from None
        values = plan.column("value").values(column)
        return np.ascontiguousarray(plan.mechanism.pack(plan.mechanism.encode(values)))

    def _deliver(self, answer: Answered) -> None:
        if answer.report:
            delivery.deliver(self.campaign, answer.number, self._link, bytes.fromhex(answer.report))
            self.wallet.confirm(answer)
