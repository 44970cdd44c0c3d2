"""Key files: secrets in a small JSON file for its owner only, and the public part that others are told.

An analyst's file opens messages and proves who may fetch a batch; a shuffler's file signs what the shuffler says.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from shuffledp.collection import durable
from shuffledp.collection.chain import canonical
from shuffledp.service.envelope import KEY_BYTES, PrivateKey, from_text, to_text

FORMAT, VERSION = "shuffledp key", 1
ANALYST, SHUFFLER = "analyst", "shuffler"
LONGEST = 1 << 12
SIGNATURE_BYTES = 64
TOKEN = b"shuffledp v1 fetch\0"


@dataclass(frozen=True, repr=False)
class AnalystKey:
    """Opens the messages of campaigns, and makes the secret by which each batch is fetched."""

    private: PrivateKey
    seed: bytes

    @classmethod
    def new(cls) -> Self:
        """One that nobody else has."""
        return cls(PrivateKey.new(), os.urandom(KEY_BYTES))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """From its file."""
        told = _read(Path(path), ANALYST, ("secret", "seed"))
        return cls(PrivateKey(told["secret"]), told["seed"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Into a new file."""
        _write(Path(path), ANALYST, {"secret": self.private.secret, "seed": self.seed})

    @property
    def public(self) -> dict[str, Any]:
        """What others are told."""
        return self.private.public.document()

    def token(self, nonce: str) -> str:
        """The secret by which the batches of one campaign are fetched; those of others do not follow from it."""
        return hmac.new(self.seed, TOKEN + bytes.fromhex(nonce), hashlib.sha256).hexdigest()


@dataclass(frozen=True, repr=False)
class ShufflerKey:
    """Signs what a shuffler says: which key a round has, and what is in a batch."""

    secret: bytes

    @classmethod
    def new(cls) -> Self:
        """One that nobody else has."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """From its file."""
        return cls(_read(Path(path), SHUFFLER, ("secret",))["secret"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Into a new file."""
        _write(Path(path), SHUFFLER, {"secret": self.secret})

    @property
    def identity(self) -> bytes:
        """The public key (Ed25519) that campaigns name."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw()

    @property
    def public(self) -> dict[str, Any]:
        """What others are told."""
        return {"ed25519": to_text(self.identity)}

    def signed(self, label: bytes, document: dict[str, Any]) -> bytes:
        """A document in its one form, with a signature over the rest of it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signature = Ed25519PrivateKey.from_private_bytes(self.secret).sign(label + canonical(document).encode())
        return canonical(document | {"signature": to_text(signature)}).encode()


def signed_by(who: str, identity: bytes, label: bytes, content: bytes) -> dict[str, Any]:
    """A document that was signed by this identity, without the signature; a sentence otherwise."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        document = json.loads(content)
        signature = from_text(who, "the signature", document.pop("signature"), SIGNATURE_BYTES)
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, label + canonical(document).encode())
    except (InvalidSignature, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"{who}: it is not signed by the shuffler that the campaign names; do not rely on it."
        ) from None
    return dict(document)


def load(path: str | os.PathLike[str]) -> AnalystKey | ShufflerKey:
    """A key of either kind."""
    kind = _document(Path(path)).get("kind")
    return ShufflerKey.load(path) if kind == SHUFFLER else AnalystKey.load(path)


def _write(path: Path, kind: str, secrets: dict[str, bytes]) -> None:
    told = {"format": FORMAT, "version": VERSION, "kind": kind}
    content = json.dumps(told | {name: to_text(secret) for name, secret in secrets.items()}, indent=1) + "\n"
    try:
        if not durable.write_whole(path, content.encode()):
            raise ValueError(f"keys: {path} is already there; a key that is lost cannot be made again.")
    except OSError as error:
        raise ValueError(f"keys: cannot write {path}: {error.strerror}.") from None


def _document(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read(LONGEST))
    except OSError as error:
        raise ValueError(f"keys: cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"keys: {path} is not a key file; make one by `shuffledp keys new`.")
    return document


def _read(path: Path, kind: str, names: tuple[str, ...]) -> dict[str, bytes]:
    document = _document(path)
    if document.get("kind") != kind:
        raise ValueError(f"keys: expected the key of {_a(kind)} in {path}, got another one.")
    return {name: from_text("keys", name, document.get(name), KEY_BYTES) for name in names}


def _a(kind: str) -> str:
    return f"an {kind}" if kind == ANALYST else f"a {kind}"
