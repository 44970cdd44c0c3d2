"""Envelopes: RFC 9180 by its own vector and by an oracle, and what does not open."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.bindings._rust import openssl

from shuffledp.service import crypto
from shuffledp.service.crypto import MESSAGE_LABEL, REPORT_LABEL, PrivateKey, PublicKey, build_context
from tests.oracle import hpke

# RFC 9180, A.1.1, base mode, the first encryption.
INFO, SAID = b"Ode on a Grecian Urn", b"Count-0"
CONTENT = b"Beauty is truth, truth beauty"
EPHEMERAL = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
SECRET = bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
SENT = bytes.fromhex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
SEALED = bytes.fromhex("f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a")


def one(content: bytes) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(content, dtype=np.uint8).reshape(1, -1)


def test_the_oracle_and_the_library_give_the_vector() -> None:
    """Sender and receiver of the RFC, with its associated data, which the library's public functions leave out."""
    assert hpke.seal(EPHEMERAL, hpke.public_key(SECRET), INFO, CONTENT, SAID) == SENT + SEALED
    assert hpke.open_envelope(SECRET, INFO, SENT + SEALED, SAID) == CONTENT
    key = crypto._load_hpke_suite()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    secret = X25519PrivateKey.from_private_bytes(SECRET)
    assert openssl.hpke._decrypt_with_aad(key, SENT + SEALED, secret, INFO, SAID) == CONTENT


def test_envelopes_are_those_of_the_oracle() -> None:
    """Both ways, with the vector's keys and information."""
    private = PrivateKey(SECRET)
    assert private.public_key == PublicKey(hpke.public_key(SECRET))
    opened, good = private.open_rows(INFO, one(hpke.seal(EPHEMERAL, private.public_key.key, INFO, CONTENT)))
    assert (opened.tobytes(), good.tolist()) == (CONTENT, [True])
    assert hpke.open_envelope(SECRET, INFO, private.public_key.seal(INFO, CONTENT)) == CONTENT
    rows = np.arange(12, dtype=np.uint8).reshape(4, 3)
    for row, sealed in zip(rows, private.public_key.seal_rows(INFO, rows), strict=True):
        assert hpke.open_envelope(SECRET, INFO, sealed.tobytes()) == row.tobytes()


def test_what_is_altered_does_not_open() -> None:
    """Every byte counts, X25519's ignored top bit included; so does what it is bound to; the others still open."""
    private, info = PrivateKey.new(), build_context(MESSAGE_LABEL, "ab" * 32, 1)
    sealed = private.public_key.seal(info, b"red")
    assert len(sealed) == 3 + 48
    rows = np.tile(np.frombuffer(sealed, dtype=np.uint8), (len(sealed) + 3, 1))
    rows[np.arange(len(sealed)), np.arange(len(sealed))] ^= 0x01
    rows[len(sealed), 31] ^= 0x80
    rows[len(sealed) + 1, :32] = 0
    opened, good = private.open_rows(info, rows)
    assert (opened.tobytes(), np.flatnonzero(good).tolist()) == (b"red", [len(sealed) + 2])
    for other in (
        build_context(REPORT_LABEL, "ab" * 32, 1),
        build_context(MESSAGE_LABEL, "ab" * 32, 2),
        build_context(MESSAGE_LABEL, "ac" * 32, 1),
    ):
        assert not private.open_rows(other, one(sealed))[1].any()
    assert not PrivateKey.new().open_rows(info, one(sealed))[1].any()
    assert private.public_key.seal(info, b"red") != sealed


def test_contexts_are_those_of_the_format() -> None:
    """Pinned: a device and a shuffler of different versions must agree, and golden envelopes of browsers need Node."""
    place = bytes.fromhex("ab" * 32) + (258).to_bytes(8, "big")
    assert build_context(MESSAGE_LABEL, "ab" * 32, 258) == b"shuffledp v1 message\0" + place
    assert build_context(REPORT_LABEL, "ab" * 32, 258) == b"shuffledp v1 report\0" + place


def test_contexts_are_all_different() -> None:
    """Label, campaign and round have fixed lengths: no two contexts are the same bytes."""
    found = {
        build_context(kind, f"{number:064x}", k)
        for kind in (MESSAGE_LABEL, REPORT_LABEL)
        for number in (0, 1)
        for k in (0, 1, 256)
    }
    assert len(found) == 12


@pytest.mark.parametrize(
    "document",
    [None, {}, {"kem": 32, "kdf": 1, "aead": 1, "key": "a"}, {"kem": 16, "kdf": 1, "aead": 1, "key": "A" * 43}],
)
def test_a_public_key_is_read_or_refused(document: object) -> None:
    """By a sentence."""
    with pytest.raises(ValueError, match=r"^who: .*\.$"):
        PublicKey.from_document("who", document)
    key = PrivateKey.new().public_key
    assert PublicKey.from_document("who", key.to_document()) == key


def test_a_secret_is_not_shown() -> None:
    """Not by repr, which ends in logs."""
    private = PrivateKey(SECRET)
    assert SECRET.hex() not in repr(private)
    assert repr(SECRET) not in repr(private)
