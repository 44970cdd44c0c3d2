"""What a shuffler signs: the notice of a round, for clients, and the statement about its batch, for the analyst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from shuffledp.collection.manifest import Manifest
from shuffledp.service.campaign import Campaign
from shuffledp.service.envelope import PublicKey
from shuffledp.service.key_file import ShufflerKey, signed_by

NOTICE, STATEMENT = b"shuffledp v1 round\0", b"shuffledp v1 batch\0"
LONGEST_NOTICE, LONGEST_STATEMENT = 1 << 16, 1 << 20
"""More is not read of either."""


@dataclass(frozen=True)
class Notice:
    """A round: until when it is open, and what reports are sealed to. Times are seconds since 1970."""

    campaign: str
    number: int
    opens: int
    closes: int
    key: PublicKey

    def signed(self, by: ShufflerKey) -> bytes:
        """For clients."""
        told = {"format": "shuffledp round", "version": 1, "campaign": self.campaign, "round": self.number,
                "opens": self.opens, "closes": self.closes, "key": self.key.document()}  # fmt: skip
        return by.signed(NOTICE, told)

    @classmethod
    def read(cls, campaign: Campaign, content: bytes) -> Self:
        """The notice of a campaign's round; a sentence unless its shuffler signed it."""
        told = signed_by("round", campaign.identity, NOTICE, content)
        names = ("campaign", "round", "opens", "closes")
        whole = all(type(told.get(name)) is (str if name == "campaign" else int) for name in names)
        if not whole or told["campaign"] != campaign.id:
            raise ValueError("round: the notice is about another campaign.")
        campaign.demand_round(told["round"])
        key = PublicKey.read("round", told.get("key"))
        return cls(told["campaign"], told["round"], told["opens"], told["closes"], key)


@dataclass(frozen=True)
class BatchRecord:
    """A batch: what it must add up to, its files with their sizes, and how many reports were set aside."""

    campaign: str
    number: int
    manifest: Manifest
    files: Mapping[str, int]
    repeated: int
    refused: int

    def signed(self, by: ShufflerKey) -> bytes:
        """For the analyst."""
        told = {"format": "shuffledp batch", "version": 1, "campaign": self.campaign, "round": self.number,
                "manifest": _told(self.manifest), "files": dict(self.files), "repeated": self.repeated,
                "refused": self.refused}  # fmt: skip
        return by.signed(STATEMENT, told)

    @classmethod
    def read(cls, campaign: Campaign, content: bytes) -> Self:
        """The statement about a batch of this campaign; a sentence unless its shuffler signed it."""
        told = signed_by("batch", campaign.identity, STATEMENT, content)
        try:
            made = cls(told["campaign"], told["round"], _manifest(told["manifest"]), _counts(told["files"]),
                       **_counts({name: told[name] for name in ("repeated", "refused")}))  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError("batch: what the shuffler signed cannot be read; it may be of another version.") from None
        if made.campaign != campaign.id:
            raise ValueError("batch: it is of another campaign.")
        return made


def _told(manifest: Manifest) -> dict[str, Any]:
    """What is said of a batch: it is not of files, so that nothing is said of those."""
    return {name: value for name, value in asdict(manifest).items() if name != "bundles"}


def _manifest(told: Any) -> Manifest:
    named = [field for field in fields(Manifest) if field.name != "bundles"]
    kinds = {field.name: str if field.type == "str" else int for field in named}
    if told.keys() != kinds.keys() or any(type(told[name]) is not kind for name, kind in kinds.items()):
        raise ValueError
    _counts({name: told[name] for name, kind in kinds.items() if kind is int})
    return Manifest(**told)


def _counts(told: Any) -> dict[str, int]:
    """Whole numbers from 0 on, each with its name."""
    if any(type(count) is not int or count < 0 for count in told.values()):
        raise ValueError
    return dict(told)
