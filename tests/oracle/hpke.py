"""HPKE's base mode step by step as RFC 9180 writes it (X25519, HKDF-SHA256, AES-128-GCM), from HMAC alone."""

from __future__ import annotations

import hashlib
import hmac

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEM_SUITE = b"KEM" + (0x20).to_bytes(2, "big")
SUITE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x20, 0x01, 0x01))


def extract(salt: bytes, label: bytes, secret: bytes, suite: bytes) -> bytes:
    """LabeledExtract of section 4."""
    return hmac.new(salt or bytes(32), b"HPKE-v1" + suite + label + secret, hashlib.sha256).digest()


def expand(key: bytes, label: bytes, info: bytes, length: int, suite: bytes) -> bytes:
    """LabeledExpand of section 4, for at most one block."""
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.new(key, labelled + b"\x01", hashlib.sha256).digest()[:length]


def key_schedule(shared: bytes, info: bytes) -> tuple[bytes, bytes]:
    """Key and base nonce of mode_base, section 5.1."""
    said = b"\x00" + extract(b"", b"psk_id_hash", b"", SUITE) + extract(b"", b"info_hash", info, SUITE)
    secret = extract(shared, b"secret", b"", SUITE)
    return expand(secret, b"key", said, 16, SUITE), expand(secret, b"base_nonce", said, 12, SUITE)


def shared_secret(own: bytes, other: bytes, sent: bytes, receiver: bytes) -> bytes:
    """Encap and Decap of section 4.1: the same Diffie–Hellman value from both sides."""
    exchanged = X25519PrivateKey.from_private_bytes(own).exchange(X25519PublicKey.from_public_bytes(other))
    return expand(extract(b"", b"eae_prk", exchanged, KEM_SUITE), b"shared_secret", sent + receiver, 32, KEM_SUITE)


def public_key(secret: bytes) -> bytes:
    """Of a secret key."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def seal(ephemeral: bytes, receiver: bytes, info: bytes, content: bytes, said: bytes = b"") -> bytes:
    """What whoever holds this one-time secret sends."""
    sent = public_key(ephemeral)
    key, nonce = key_schedule(shared_secret(ephemeral, receiver, sent, receiver), info)
    return sent + AESGCM(key).encrypt(nonce, content, said)


def open_envelope(secret: bytes, info: bytes, sealed: bytes, said: bytes = b"") -> bytes:
    """What the receiver reads."""
    sent, receiver = sealed[:32], public_key(secret)
    key, nonce = key_schedule(shared_secret(secret, sent, sent, receiver), info)
    return AESGCM(key).decrypt(nonce, sealed[32:], said)
