"""Cryptography of the service: HPKE envelopes, signed documents, and the key files of analysts and shufflers.

Envelopes use HPKE (RFC 9180) in base mode with X25519, HKDF-SHA256 and AES-128-GCM, from the package ``cryptography``.
Only the holder of the private key can open an envelope, and only in the context (``info``) that it was sealed for. An
altered copy does not open, so a repeated report is one with equal bytes.

Key files are JSON documents that only their owner can read. An analyst's key opens messages and authorizes the fetching
of batches; a shuffler's key signs the shuffler's documents.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.errors import install_hint
from shuffledp._core.validation import Bytes
from shuffledp.ledger.hash_chain import format_canonical_json
from shuffledp.storage import durable_files

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hpke import Suite


# --- Envelopes ---

KEY_BYTES, TAG_BYTES = 32, 16
ENVELOPE_OVERHEAD_BYTES = KEY_BYTES + TAG_BYTES
"""Bytes that sealing adds: the envelope's one-time X25519 key and the cipher's tag."""
REPORTS_MEDIA_TYPE = "application/vnd.shuffledp.reports"
"""The media type of sealed reports."""
KEM, KDF, AEAD = 0x0020, 0x0001, 0x0001
"""Identifiers in RFC 9180 of DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM."""
MESSAGE_LABEL, REPORT_LABEL = b"shuffledp v1 message\0", b"shuffledp v1 report\0"


def build_context(kind: bytes, campaign: str, round_number: int) -> bytes:
    """Returns the context that an envelope is bound to: the kind of its content, the campaign's id, and the round."""
    return kind + bytes.fromhex(campaign) + round_number.to_bytes(8, "big")


def encode_base64url(content: bytes) -> str:
    """Encodes bytes in base64url without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_base64url(who: str, name: str, text: Any, length: int) -> bytes:
    """Decodes the result of ``encode_base64url``; raises ValueError unless it is canonical and of this length."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (TypeError, ValueError, binascii.Error):
        content = b""
    if len(content) != length or encode_base64url(content) != text:
        raise ValueError(f"{who}: {name} must be {length} bytes in base64url, got something else.")
    return content


@dataclass(frozen=True)
class PublicKey:
    """An X25519 public key that messages are sealed to."""

    key: bytes

    def to_document(self) -> dict[str, Any]:
        """Returns the key as a JSON document with the fields of DAP's HpkeConfig."""
        return {"kem": KEM, "kdf": KDF, "aead": AEAD, "key": encode_base64url(self.key)}

    @classmethod
    def from_document(cls, who: str, document: Any) -> Self:
        """Reads the result of ``to_document``; raises ValueError for anything else, including other cipher suites."""
        is_complete = isinstance(document, Mapping) and document.keys() == {"kem", "kdf", "aead", "key"}
        if not is_complete or (document["kem"], document["kdf"], document["aead"]) != (KEM, KDF, AEAD):
            raise ValueError(f"{who}: expected a key of HPKE with X25519, HKDF-SHA256 and AES-128-GCM.")
        return cls(decode_base64url(who, "the public key", document["key"], KEY_BYTES))

    def seal(self, info: bytes, content: bytes) -> bytes:
        """Returns an envelope, 48 bytes longer than its content; two envelopes of equal contents look unrelated."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        return _load_hpke_suite().encrypt(content, X25519PublicKey.from_public_bytes(self.key), info)

    def seal_rows(self, info: bytes, rows: Bytes) -> Bytes:
        """Seals each row in its own envelope."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        suite, key = _load_hpke_suite(), X25519PublicKey.from_public_bytes(self.key)
        sealed = b"".join(suite.encrypt(row.tobytes(), key, info) for row in rows)
        return np.frombuffer(sealed, dtype=np.uint8).reshape(len(rows), rows.shape[1] + ENVELOPE_OVERHEAD_BYTES)


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """An X25519 private key, which opens envelopes."""

    secret: bytes

    def __repr__(self) -> str:
        # The secret must not reach a log.
        return "PrivateKey(…)"

    @classmethod
    def new(cls) -> Self:
        """Generates a random key."""
        return cls(os.urandom(KEY_BYTES))

    @property
    def public_key(self) -> PublicKey:
        """The public key to seal to."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return PublicKey(X25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw())

    def open_rows(self, info: bytes, rows: Bytes) -> tuple[Bytes, NDArray[np.bool_]]:
        """Opens envelopes; returns the contents of those that open, and for each row True if it opened."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        suite, key = _load_hpke_suite(), X25519PrivateKey.from_private_bytes(self.secret)
        width = rows.shape[1] - ENVELOPE_OVERHEAD_BYTES
        contents: list[bytes] = []
        is_open = np.ones(len(rows), dtype=np.bool_)
        for place, row in enumerate(np.ascontiguousarray(rows)):
            try:
                contents.append(suite.decrypt(row.data, key, info))
            # Some versions raise ValueError for an invalid one-time key.
            except (InvalidTag, ValueError):
                is_open[place] = False
        return np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(len(contents), width), is_open


def _load_hpke_suite() -> Suite:
    try:
        from cryptography.hazmat.primitives import hpke
    except ImportError:
        raise ValueError(f"seal: sealing needs cryptography 47 or newer; {install_hint('service')}.") from None
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


# --- Key files and signatures ---

FORMAT, VERSION = "shuffledp key", 1
ANALYST, SHUFFLER = "analyst", "shuffler"
MAX_KEY_FILE_BYTES = 1 << 12
SIGNATURE_BYTES = 64
FETCH_TOKEN_LABEL = b"shuffledp v1 fetch\0"


@dataclass(frozen=True, repr=False)
class AnalystKey:
    """An analyst's secrets: the key that opens messages, and the seed of the tokens that authorize fetching."""

    private_key: PrivateKey
    seed: bytes

    @classmethod
    def new(cls) -> Self:
        """Generates a random key."""
        return cls(PrivateKey.new(), os.urandom(KEY_BYTES))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the key from its file."""
        secrets = _read_secrets(Path(path), ANALYST, ("secret", "seed"))
        return cls(PrivateKey(secrets["secret"]), secrets["seed"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the key into a new file."""
        _write_key_file(Path(path), ANALYST, {"secret": self.private_key.secret, "seed": self.seed})

    @property
    def public_document(self) -> dict[str, Any]:
        """The public part, as JSON documents have it."""
        return self.private_key.public_key.to_document()

    def fetch_token(self, nonce: str) -> str:
        """Returns the secret that authorizes fetching the batches of one campaign; it reveals no other campaign's."""
        return hmac.new(self.seed, FETCH_TOKEN_LABEL + bytes.fromhex(nonce), hashlib.sha256).hexdigest()


@dataclass(frozen=True, repr=False)
class ShufflerKey:
    """A shuffler's Ed25519 key, which signs the notices of rounds and the statements about batches."""

    secret: bytes

    @classmethod
    def new(cls) -> Self:
        """Generates a random key."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads the key from its file."""
        return cls(_read_secrets(Path(path), SHUFFLER, ("secret",))["secret"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the key into a new file."""
        _write_key_file(Path(path), SHUFFLER, {"secret": self.secret})

    @property
    def identity(self) -> bytes:
        """The public key (Ed25519) that campaigns name."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self.secret).public_key().public_bytes_raw()

    @property
    def public_document(self) -> dict[str, Any]:
        """The public part, as JSON documents have it."""
        return {"ed25519": encode_base64url(self.identity)}

    def sign_document(self, label: bytes, document: dict[str, Any]) -> bytes:
        """Returns the canonical JSON of a document with a signature over it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signature = Ed25519PrivateKey.from_private_bytes(self.secret).sign(
            label + format_canonical_json(document).encode()
        )
        return format_canonical_json(document | {"signature": encode_base64url(signature)}).encode()


def verify_document(who: str, identity: bytes, label: bytes, content: bytes) -> dict[str, Any]:
    """Returns a signed document without its signature; raises ValueError unless this identity signed it."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        document = json.loads(content)
        signature = decode_base64url(who, "the signature", document.pop("signature"), SIGNATURE_BYTES)
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, label + format_canonical_json(document).encode())
    except (InvalidSignature, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"{who}: it is not signed by the shuffler that the campaign names; do not rely on it."
        ) from None
    return dict(document)


def load_key(path: str | os.PathLike[str]) -> AnalystKey | ShufflerKey:
    """Reads a key file of either kind."""
    kind = _read_key_document(Path(path)).get("kind")
    return ShufflerKey.load(path) if kind == SHUFFLER else AnalystKey.load(path)


def _write_key_file(path: Path, kind: str, secrets: dict[str, bytes]) -> None:
    told = {"format": FORMAT, "version": VERSION, "kind": kind}
    content = json.dumps(told | {name: encode_base64url(secret) for name, secret in secrets.items()}, indent=1) + "\n"
    try:
        if not durable_files.create_atomically(path, content.encode()):
            raise ValueError(f"keys: {path} is already there; a key that is lost cannot be made again.")
    except OSError as error:
        raise ValueError(f"keys: cannot write {path}: {error.strerror}.") from None


def _read_key_document(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read(MAX_KEY_FILE_BYTES))
    except OSError as error:
        raise ValueError(f"keys: cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or (document.get("format"), document.get("version")) != (FORMAT, VERSION):
        raise ValueError(f"keys: {path} is not a key file; create one with `shuffledp keys new`.")
    return document


def _read_secrets(path: Path, kind: str, names: tuple[str, ...]) -> dict[str, bytes]:
    document = _read_key_document(path)
    if document.get("kind") != kind:
        raise ValueError(f"keys: expected the key of {_with_article(kind)} in {path}, got another one.")
    return {name: decode_base64url("keys", name, document.get(name), KEY_BYTES) for name in names}


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind == ANALYST else f"a {kind}"


# --- Decryption in parallel ---


CHUNK_ROWS = 4096
"""Number of envelopes in a unit of work."""
MIN_PARALLEL_ROWS = 20_000
"""Below this number, which takes about a second, envelopes are opened in this process."""


@dataclass(frozen=True)
class EnvelopeOpener:
    """A private key and the context that the envelopes are bound to."""

    key: PrivateKey
    info: bytes

    def __call__(self, rows: Bytes) -> tuple[Bytes, int]:
        """Returns the contents of the rows that open, and the number of those that do not."""
        contents, is_open = self.key.open_rows(self.info, rows)
        return contents, len(is_open) - len(contents)

    def open_all(self, batches: Iterable[Bytes], rows: int, workers: int | None = 1) -> Iterator[tuple[Bytes, int]]:
        """Opens all batches in order.

        Args:
            batches: Envelopes, one per row.
            rows: Upper bound of their number.
            workers: Number of processes; None stands for one per processor. A script that uses more than one must do
                so below ``if __name__ == "__main__"``.

        Yields:
            The contents of the rows that open, and the number of those that do not, for each piece of a batch.
        """
        processes = (os.cpu_count() or 1) if workers is None else workers
        pieces = (batch[start : start + CHUNK_ROWS] for batch in batches for start in range(0, len(batch), CHUNK_ROWS))
        if processes <= 1 or rows < MIN_PARALLEL_ROWS:
            yield from map(self, pieces)
            return
        with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
            waiting: deque[Future[tuple[Bytes, int]]] = deque()
            for piece in pieces:
                waiting.append(pool.submit(self, piece.copy()))
                if len(waiting) > 2 * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
