"""Tokens that admit somebody without saying whom: Privacy Pass, type 2 (RFC 9578), blind RSA of 2048 bits (RFC 9474).

An issuer that knows people signs what it cannot see; the shuffler checks the signature and cannot tell for whom it was
made. RSABSSA-SHA384-PSS-Deterministic: what comes out is an RSA-PSS signature that anybody can check.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

WHO = "token"
TYPE = (2).to_bytes(2, "big")
BITS, KEY_BYTES, SALT_BYTES, HASH_BYTES, NONCE_BYTES, DIGEST_BYTES = 2048, 256, 48, 48, 32, 32
INPUT_BYTES = len(TYPE) + NONCE_BYTES + 2 * DIGEST_BYTES
TOKEN_BYTES = INPUT_BYTES + KEY_BYTES
# The head of a public key for RSA-PSS with SHA-384, MGF1 with SHA-384 and a salt of 48 bytes, which stands for all
# keys of 2048 bits with the exponent 65537: what follows is the modulus and the exponent.
KEY_HEAD = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b06096086480165"
    "03040202a2030201300382010f003082010a0282010100"
)
EXPONENT = 65537
KEY_TAIL = bytes.fromhex("0203010001")


def challenge_of(issuer: str, context: bytes) -> bytes:
    """What a token is for (RFC 9577, section 2.1): an issuer's name and 32 bytes; no origin, as any may serve it."""
    name = issuer.encode()
    return TYPE + len(name).to_bytes(2, "big") + name + bytes([len(context)]) + context + bytes(2)


@dataclass(frozen=True)
class IssuerKey:
    """What an issuer's tokens are checked by."""

    modulus: int

    @classmethod
    def read(cls, encoded: bytes) -> Self:
        """From its DER form; a sentence for anything else."""
        whole = len(encoded) == len(KEY_HEAD) + KEY_BYTES + len(KEY_TAIL)
        if not whole or not encoded.startswith(KEY_HEAD) or not encoded.endswith(KEY_TAIL):
            raise ValueError(f"{WHO}: expected an issuer's RSA-PSS key of {BITS} bits with SHA-384, in DER.")
        made = cls(int.from_bytes(encoded[len(KEY_HEAD) : -len(KEY_TAIL)], "big"))
        if made.modulus.bit_length() != BITS or made.modulus % 2 == 0:
            raise ValueError(f"{WHO}: the issuer's key is no RSA key of {BITS} bits.")
        return made

    @property
    def encoded(self) -> bytes:
        """In DER, as issuers publish it."""
        return KEY_HEAD + self.modulus.to_bytes(KEY_BYTES, "big") + KEY_TAIL

    @property
    def id(self) -> bytes:
        return hashlib.sha256(self.encoded).digest()

    def verifies(self, token: bytes) -> bool:
        """Whether the issuer signed it."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        chosen = padding.PSS(padding.MGF1(hashes.SHA384()), SALT_BYTES)
        try:
            self._key().verify(token[INPUT_BYTES:], token[:INPUT_BYTES], chosen, hashes.SHA384())
        except InvalidSignature:
            return False
        return True

    def _key(self) -> RSAPublicKey:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        return RSAPublicNumbers(EXPONENT, self.modulus).public_key()


@dataclass(frozen=True, repr=False)
class TokenRequest:
    """A client's token on its way: ``content`` goes to the issuer, the rest stays with the client."""

    key: IssuerKey
    signed: bytes
    content: bytes
    unblind: int

    @classmethod
    def new(cls, key: IssuerKey, challenge: bytes) -> Self:
        """One that nobody can link to the token that it becomes."""
        return cls.of(key, challenge, os.urandom(NONCE_BYTES), os.urandom(SALT_BYTES), _invertible(key.modulus))

    @classmethod
    def of(cls, key: IssuerKey, challenge: bytes, nonce: bytes, salt: bytes, blind: int) -> Self:
        """With everything that is drawn."""
        signed = TYPE + nonce + hashlib.sha256(challenge).digest() + key.id
        blinded = _padded(signed, salt) * pow(blind, EXPONENT, key.modulus) % key.modulus
        content = TYPE + key.id[-1:] + blinded.to_bytes(KEY_BYTES, "big")
        return cls(key, signed, content, pow(blind, -1, key.modulus))

    def finish(self, response: bytes) -> bytes:
        """The token, out of the issuer's answer; a sentence if it did not sign."""
        signature = int.from_bytes(response, "big") * self.unblind % self.key.modulus
        token = self.signed + signature.to_bytes(KEY_BYTES, "big")
        if len(response) != KEY_BYTES or not self.key.verifies(token):
            raise ValueError(f"{WHO}: the issuer's answer is no signature by the key that the campaign names.")
        return token


@dataclass(frozen=True, repr=False)
class Issuer:
    """Signs what it cannot see; whom it signs for, and how often, is its own business.

    An example to build on: Python's integers take a time that depends on the key. An issuer that strangers can measure
    belongs on software made for that.
    """

    private: RSAPrivateKey

    @classmethod
    def new(cls) -> Self:
        """One with a key of its own."""
        from cryptography.hazmat.primitives.asymmetric import rsa

        return cls(rsa.generate_private_key(EXPONENT, BITS))

    @property
    def key(self) -> IssuerKey:
        return IssuerKey(self.private.public_key().public_numbers().n)

    def sign(self, content: bytes) -> bytes:
        """The answer to a request; a sentence for what is none."""
        head = TYPE + self.key.id[-1:]
        number = int.from_bytes(content[len(head) :], "big")
        if len(content) != len(head) + KEY_BYTES or not content.startswith(head) or number >= self.key.modulus:
            raise ValueError(f"{WHO}: expected a request for a token of type 2 by this key.")
        signed = pow(number, self.private.private_numbers().d, self.key.modulus)
        if pow(signed, EXPONENT, self.key.modulus) != number:
            raise ValueError(f"{WHO}: the signature went wrong; nothing is answered.")
        return signed.to_bytes(KEY_BYTES, "big")


def _invertible(modulus: int) -> int:
    """A number whose multiples are as good as random."""
    import math

    while True:
        number = secrets.randbelow(modulus - 1) + 1
        if math.gcd(number, modulus) == 1:
            return number


def _padded(message: bytes, salt: bytes) -> int:
    """What RSA-PSS signs (EMSA-PSS, RFC 8017, section 9.1.1), for keys of 2048 bits."""
    hashed = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = bytes(KEY_BYTES - SALT_BYTES - HASH_BYTES - 2) + b"\x01" + salt
    mask = b"".join(hashlib.sha384(hashed + count.to_bytes(4, "big")).digest() for count in range(5))
    masked = bytearray(one ^ other for one, other in zip(block, mask, strict=False))
    masked[0] &= 0x7F
    return int.from_bytes(bytes(masked) + hashed + b"\xbc", "big")
