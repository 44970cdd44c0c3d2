"""Documents that the shuffler signs: the notice of a round and the statement of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Self

from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import (
    PublicKey,
    ShufflerKey,
    verify_document,
)

if TYPE_CHECKING:
    from shuffledp.collection.message_files import Manifest


NOTICE_LABEL, STATEMENT_LABEL = b"shuffledp v1 round\0", b"shuffledp v1 batch\0"


@dataclass(frozen=True)
class RoundNotice:
    """The notice of a round for clients: its deadline and the key that reports are sealed to.

    Times are in seconds since 1970.
    """

    campaign: str
    number: int
    opens: int
    closes: int
    key: PublicKey

    def sign(self, by: ShufflerKey) -> bytes:
        """Returns the signed notice."""
        document = {"format": "shuffledp round", "version": 1, "campaign": self.campaign, "round": self.number,
                    "opens": self.opens, "closes": self.closes, "key": self.key.to_document()}  # fmt: skip
        return by.sign_document(NOTICE_LABEL, document)

    @classmethod
    def from_signed(cls, campaign: Campaign, content: bytes) -> Self:
        """Reads the notice of a round; raises ValueError unless the campaign's shuffler signed it."""
        document = verify_document("round", campaign.shuffler_identity, NOTICE_LABEL, content)
        kinds = {"campaign": str, "round": int, "opens": int, "closes": int}
        is_complete = all(type(document.get(name)) is kind for name, kind in kinds.items())
        if not is_complete or document["campaign"] != campaign.id:
            raise ValueError("round: the notice is about another campaign.")
        campaign.check_round(document["round"])
        key = PublicKey.from_document("round", document.get("key"))
        return cls(document["campaign"], document["round"], document["opens"], document["closes"], key)


@dataclass(frozen=True)
class BatchStatement:
    """The statement about a batch for the analyst: manifest, sizes of its files, and counts of discarded reports."""

    campaign: str
    number: int
    manifest: Manifest
    files: Mapping[str, int]
    repeated: int
    refused: int

    def sign(self, by: ShufflerKey) -> bytes:
        """Returns the signed statement."""
        document = {"format": "shuffledp batch", "version": 1, "campaign": self.campaign, "round": self.number,
                    "manifest": _manifest_to_document(self.manifest), "files": dict(self.files),
                    "repeated": self.repeated, "refused": self.refused}  # fmt: skip
        return by.sign_document(STATEMENT_LABEL, document)

    @classmethod
    def from_signed(cls, campaign: Campaign, content: bytes) -> Self:
        """Reads the statement about a batch; raises ValueError unless the campaign's shuffler signed it."""
        document = verify_document("batch", campaign.shuffler_identity, STATEMENT_LABEL, content)
        try:
            statement = cls(
                document["campaign"],
                document["round"],
                _manifest_from_document(document["manifest"]),
                _check_counts(document["files"]),
                **_check_counts({name: document[name] for name in ("repeated", "refused")}),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError("batch: the statement cannot be read; another version may have written it.") from None
        if statement.campaign != campaign.id:
            raise ValueError("batch: the statement is about another campaign.")
        return statement


def _manifest_to_document(manifest: Manifest) -> dict[str, Any]:
    """Returns a manifest as a document, without ``bundles``, which batches of the service do not have."""
    return {name: value for name, value in asdict(manifest).items() if name != "bundles"}


def _manifest_from_document(document: Any) -> Manifest:
    # Imported here because clients read only notices.
    from shuffledp.collection.message_files import Manifest

    named = [field for field in fields(Manifest) if field.name != "bundles"]
    kinds = {field.name: str if field.type == "str" else int for field in named}
    if document.keys() != kinds.keys() or any(type(document[name]) is not kind for name, kind in kinds.items()):
        raise ValueError
    _check_counts({name: document[name] for name, kind in kinds.items() if kind is int})
    return Manifest(**document)


def _check_counts(counts: Any) -> dict[str, int]:
    """Returns the counts; raises ValueError unless all are non-negative integers."""
    if any(type(count) is not int or count < 0 for count in counts.values()):
        raise ValueError
    return dict(counts)


MAX_NOTICE_BYTES, MAX_STATEMENT_BYTES = 1 << 16, 1 << 20
"""Maximum sizes in bytes."""
