"""Envelopes: HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and AES-128-GCM, from the package ``cryptography``.

Only the holder of the private key opens what is sealed to a public one, and only in the context (``info``) for which it
was sealed. An altered copy does not open, so that equal bytes, and nothing else, are a repetition.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp.array import Bytes
from shuffledp.errors import installing
from shuffledp.planner.cost import SEAL_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite

KEY_BYTES = 32
KEM, KDF, AEAD = 0x0020, 0x0001, 0x0001
"""RFC 9180's numbers of DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM."""
MESSAGE, REPORT = b"shuffledp v1 message\0", b"shuffledp v1 report\0"


def context(kind: bytes, campaign: str, round_number: int) -> bytes:
    """What an envelope is bound to: what it holds, the campaign's id, and the round."""
    return kind + bytes.fromhex(campaign) + round_number.to_bytes(8, "big")


def to_text(content: bytes) -> str:
    """Bytes in a document."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def from_text(who: str, name: str, text: Any, length: int) -> bytes:
    """The inverse of ``to_text``, for bytes of this length; a sentence for anything else."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (TypeError, ValueError, binascii.Error):
        content = b""
    if len(content) != length or to_text(content) != text:
        raise ValueError(f"{who}: {name} must be {length} bytes in base64url, got something else.")
    return content


@dataclass(frozen=True)
class PublicKey:
    """What messages are sealed to: an X25519 key, and the numbers of the suite that it is used with."""

    key: bytes

    def document(self) -> dict[str, Any]:
        """For JSON, in the fields of DAP's HpkeConfig."""
        return {"kem": KEM, "kdf": KDF, "aead": AEAD, "key": to_text(self.key)}

    @classmethod
    def read(cls, who: str, document: Any) -> Self:
        """The inverse of ``document``; a sentence for anything else, another suite included."""
        known = isinstance(document, Mapping) and document.keys() == {"kem", "kdf", "aead", "key"}
        if not known or (document["kem"], document["kdf"], document["aead"]) != (KEM, KDF, AEAD):
            raise ValueError(f"{who}: expected a key of HPKE with X25519, HKDF-SHA256 and AES-128-GCM.")
        return cls(from_text(who, "the public key", document["key"], KEY_BYTES))

    def seal(self, info: bytes, content: bytes) -> bytes:
        """An envelope, 48 bytes longer than what it holds; a second one of the same content looks unrelated."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        return _suite().encrypt(content, X25519PublicKey.from_public_bytes(self.key), info)

    def seal_rows(self, info: bytes, rows: Bytes) -> Bytes:
        """Each row in an envelope of its own."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        suite, key = _suite(), X25519PublicKey.from_public_bytes(self.key)
        sealed = b"".join(suite.encrypt(row.tobytes(), key, info) for row in rows)
        return np.frombuffer(sealed, dtype=np.uint8).reshape(len(rows), rows.shape[1] + SEAL_BYTES)


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """What opens envelopes."""

    secret: bytes

    def __repr__(self) -> str:
        # It must not reach a log.
        return "PrivateKey(…)"

    @classmethod
    def new(cls) -> Self:
        """One that nobody else has."""
        return cls(os.urandom(KEY_BYTES))

    @property
    def public(self) -> PublicKey:
        """What to seal to."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return PublicKey(X25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw())

    def open_rows(self, info: bytes, rows: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
        """What the rows hold, and which of them opened: the others, of whoever sealed them, are not in the first."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        suite, key = _suite(), X25519PrivateKey.from_private_bytes(self.secret)
        width = rows.shape[1] - SEAL_BYTES
        found: list[bytes] = []
        opened = np.ones(len(rows), dtype=np.bool_)
        for place, row in enumerate(np.ascontiguousarray(rows)):
            try:
                found.append(suite.decrypt(row.data, key, info))
            # A one-time key that is no good point is refused otherwise by some versions.
            except (InvalidTag, ValueError):
                opened[place] = False
        return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(len(found), width), opened


def _suite() -> Suite:
    try:
        from cryptography.hazmat.primitives import hpke
    except ImportError:
        raise ValueError(f"seal: sealing needs cryptography 47 or newer; {installing('service')}.") from None
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
