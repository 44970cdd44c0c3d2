"""Who may take part, where a campaign says so: something beside a client's messages that counts once in a round."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Bytes
from shuffledp.service.envelope import context, from_text, to_text
from shuffledp.service.private_token import (
    DIGEST_BYTES,
    INPUT_BYTES,
    KEY_BYTES,
    KEY_HEAD,
    KEY_TAIL,
    NONCE_BYTES,
    TOKEN_BYTES,
    TYPE,
    IssuerKey,
    TokenRequest,
    challenge_of,
)

CONTEXT = b"shuffledp v1 admission\0"
PRIVATE_TOKEN = "rfc9578-2"
LONGEST_NAME = 255


class Admission(ABC):
    """A rule of a campaign: what each client adds to its messages, inside of what is sealed to the shuffler.

    The shuffler looks at it when it mixes, and drops it: it never reaches the analyst.
    """

    token_bytes: int
    """What is added to a client's messages."""
    mark_bytes: int
    """What may occur only once in a round."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """For the campaign; ``read_admission`` is the inverse."""

    @abstractmethod
    def admitted(self, tokens: Bytes, campaign: str, round_number: int) -> NDArray[np.bool_]:
        """Which rows may take part in this round."""

    @abstractmethod
    def marks(self, tokens: Bytes) -> Bytes:
        """Of each row what may occur only once."""


@dataclass(frozen=True)
class PrivateTokens(Admission):
    """Tokens of one issuer, for one campaign and round each; nobody can tell for whom one was made."""

    issuer: str
    key: IssuerKey
    token_bytes = TOKEN_BYTES
    mark_bytes = NONCE_BYTES

    @classmethod
    def read(cls, who: str, document: Mapping[str, Any]) -> Self:
        """The inverse of ``document``; a sentence for anything else."""
        name = document.get("issuer")
        if document.keys() != {"kind", "issuer", "key"} or not isinstance(name, str) or len(name) > LONGEST_NAME:
            raise ValueError(f"{who}: its admission must have the name and the key of an issuer.")
        length = len(KEY_HEAD) + KEY_BYTES + len(KEY_TAIL)
        return cls(name, IssuerKey.read(from_text(who, "the issuer's key", document["key"], length)))

    def document(self) -> dict[str, Any]:
        return {"kind": PRIVATE_TOKEN, "issuer": self.issuer, "key": to_text(self.key.encoded)}

    def challenge(self, campaign: str, round_number: int) -> bytes:
        """What tokens of this round are for."""
        return challenge_of(self.issuer, hashlib.sha256(context(CONTEXT, campaign, round_number)).digest())

    def request(self, campaign: str, round_number: int) -> TokenRequest:
        """A client's request: send its ``content`` to the issuer, and ``finish`` with the answer."""
        return TokenRequest.new(self.key, self.challenge(campaign, round_number))

    def admitted(self, tokens: Bytes, campaign: str, round_number: int) -> NDArray[np.bool_]:
        digest = hashlib.sha256(self.challenge(campaign, round_number)).digest()
        bound = digest + self.key.id
        assert len(bound) == 2 * DIGEST_BYTES, "as the format has it"
        contents = [row.tobytes() for row in tokens]
        meant = [token[: len(TYPE)] == TYPE and token[INPUT_BYTES - len(bound) : INPUT_BYTES] == bound
                 for token in contents]  # fmt: skip
        found = [good and self.key.verifies(token) for good, token in zip(meant, contents, strict=True)]
        return np.array(found, dtype=np.bool_)

    def marks(self, tokens: Bytes) -> Bytes:
        return tokens[:, len(TYPE) : len(TYPE) + NONCE_BYTES]


def read_admission(who: str, document: Any) -> Admission:
    """The rule that a campaign names."""
    if not isinstance(document, Mapping) or document.get("kind") != PRIVATE_TOKEN:
        raise ValueError(f"{who}: it admits people in a way that this version does not know.")
    return PrivateTokens.read(who, document)
