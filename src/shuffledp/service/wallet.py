"""A client's own ledger: what it has promised to whom, and the sealed bytes until they are confirmed.

One file for each round of each campaign. It is there before anything is sent, and is never replaced by other bytes: an
answer is randomised once, whatever is killed or repeated.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.collection import durable
from shuffledp.collection.guarantee import Guarantee, TooWeak, composed_epsilon
from shuffledp.document import rounded_up
from shuffledp.service.campaign import Campaign

FORMAT, VERSION = "shuffledp answer", 1
SUFFIX = ".answer"
DELTA = 1e-6


@dataclass(frozen=True)
class Answered:
    """One answer: sealed, and perhaps confirmed. A confirmed one has no bytes any more."""

    campaign: Campaign
    number: int
    report: str
    """In hexadecimal digits; empty once it was confirmed."""
    due: int
    """When it is to be sent, in seconds since 1970."""

    @property
    def name(self) -> str:
        return f"{self.campaign.id}-{self.number}{SUFFIX}"

    def content(self) -> bytes:
        """For its file."""
        told = {"format": FORMAT, "version": VERSION, "campaign": self.campaign.content.decode(),
                "round": self.number, "report": self.report, "due": self.due}  # fmt: skip
        return json.dumps(told).encode()


@dataclass(frozen=True)
class Wallet:
    """What one person has given: ``epsilon`` at ``delta`` is the most that she will give in all."""

    directory: Path
    epsilon: float
    delta: float

    @classmethod
    def at(cls, directory: str | os.PathLike[str], epsilon: float, delta: float = DELTA) -> Wallet:
        """In a directory, which is made if it is not there."""
        path = Path(directory).expanduser()
        durable.make_directory(path, durable.OWNER_ONLY_DIRECTORY)
        durable.demand_own_directory(path.resolve())
        limit = argument.positive_finite("wallet", "epsilon", epsilon)
        return cls(path, limit, argument.open_probability("wallet", "delta", delta))

    def answers(self) -> list[Answered]:
        """Everything that was ever answered."""
        return [self._read(path) for path in sorted(self.directory.glob(f"*{SUFFIX}"))]

    def answer(self, campaign: Campaign, number: int) -> Answered | None:
        """The answer to one round."""
        path = self.directory / f"{campaign.id}-{number}{SUFFIX}"
        return self._read(path) if path.exists() else None

    def spent(self, more: Campaign | None = None) -> float:
        """ε of all rounds that were answered, at the wallet's δ, and of one more; each at its campaign's minimum."""
        asked = [each.campaign for each in self.answers()] + ([] if more is None else [more])
        return composed_epsilon([Guarantee(each.plan, each.plan.fewest).curve for each in asked], self.delta)

    def put(self, answer: Answered) -> Answered:
        """Write an answer down before it is sent; if there is one already, that one counts, and is returned."""
        try:
            with durable.locked(self.directory / "lock"):
                self._afford(answer.campaign)
                durable.write_whole(self.directory / answer.name, answer.content())
        except BlockingIOError:
            raise ValueError("wallet: another program is answering with it; try again when it is done.") from None
        found = self.answer(answer.campaign, answer.number)
        assert found is not None, "it was just written"
        return found

    def _afford(self, campaign: Campaign) -> None:
        total = self.spent(campaign)
        if total > self.epsilon:
            raise TooWeak(
                f"wallet: this would bring what was given to ε = {rounded_up(total)} at δ = {self.delta:g}, above your "
                f"limit {self.epsilon:g}; nothing was sent."
            )

    def confirm(self, answer: Answered) -> None:
        """The shuffler has it: the bytes are not needed any more, that something was given stays."""
        durable.replace_whole(self.directory / answer.name, replace(answer, report="").content())

    def _read(self, path: Path) -> Answered:
        try:
            told: dict[str, Any] = json.loads(path.read_bytes())
            if (told["format"], told["version"]) != (FORMAT, VERSION):
                raise ValueError
            campaign = Campaign.parse(told["campaign"].encode())
            bytes.fromhex(told["report"])
            return Answered(campaign, int(told["round"]), told["report"], int(told["due"]))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ValueError(f"wallet: {path} is damaged; what was given can no longer be added up.") from None
