"""Anonymous tokens that restrict who may take part: Privacy Pass type 2 (RFC 9578), 2048-bit blind RSA (RFC 9474).

An issuer that can identify people signs blinded requests; the shuffler checks the signature and cannot tell for whom it
was made. The variant is RSABSSA-SHA384-PSS-Deterministic: a token carries an RSA-PSS signature that anyone can verify.
A token is valid for one round and counts once.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from shuffledp._core.validation import Bytes
from shuffledp.service.crypto import build_context, decode_base64url, encode_base64url

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

ERROR_PREFIX = "token"
TOKEN_TYPE = (2).to_bytes(2, "big")
MODULUS_BITS, KEY_BYTES, SALT_BYTES, HASH_BYTES, NONCE_BYTES, DIGEST_BYTES = 2048, 256, 48, 48, 32, 32
TOKEN_INPUT_BYTES = len(TOKEN_TYPE) + NONCE_BYTES + 2 * DIGEST_BYTES
TOKEN_BYTES = TOKEN_INPUT_BYTES + KEY_BYTES
# DER prefix of a public key for RSA-PSS with SHA-384, MGF1 with SHA-384 and a salt of 48 bytes. It is the same for all
# 2048-bit keys with the exponent 65537; the modulus and KEY_DER_SUFFIX, the exponent, follow.
KEY_DER_PREFIX = bytes.fromhex(
    "30820152303d06092a864886f70d01010a3030a00d300b0609608648016503040202a11a301806092a864886f70d010108300b06096086480165"
    "03040202a2030201300382010f003082010a0282010100"
)
EXPONENT = 65537
KEY_DER_SUFFIX = bytes.fromhex("0203010001")


def build_challenge(issuer: str, context: bytes) -> bytes:
    """Returns the token challenge (RFC 9577, section 2.1) of an issuer and a 32-byte context, valid for any origin."""
    name = issuer.encode()
    return TOKEN_TYPE + len(name).to_bytes(2, "big") + name + bytes([len(context)]) + context + bytes(2)


@dataclass(frozen=True)
class IssuerKey:
    """An issuer's public key, which verifies its tokens.

    Args:
        modulus: Modulus of the RSA key.
    """

    modulus: int

    @classmethod
    def from_der(cls, encoded: bytes) -> Self:
        """Returns the key that a DER encoding contains.

        Args:
            encoded: The encoding, as issuers publish it.

        Raises:
            ValueError: If it is not an RSA-PSS key of 2048 bits with SHA-384.
        """
        is_complete = len(encoded) == len(KEY_DER_PREFIX) + KEY_BYTES + len(KEY_DER_SUFFIX)
        if not is_complete or not encoded.startswith(KEY_DER_PREFIX) or not encoded.endswith(KEY_DER_SUFFIX):
            raise ValueError(
                f"{ERROR_PREFIX}: expected an issuer's RSA-PSS key of {MODULUS_BITS} bits with SHA-384, in DER."
            )
        modulus = int.from_bytes(encoded[len(KEY_DER_PREFIX) : -len(KEY_DER_SUFFIX)], "big")
        if modulus.bit_length() != MODULUS_BITS or modulus % 2 == 0:
            raise ValueError(f"{ERROR_PREFIX}: the issuer's key is not an RSA key of {MODULUS_BITS} bits.")
        return cls(modulus)

    @property
    def der(self) -> bytes:
        """The key in DER, as issuers publish it."""
        return KEY_DER_PREFIX + self.modulus.to_bytes(KEY_BYTES, "big") + KEY_DER_SUFFIX

    @property
    def id(self) -> bytes:
        """The key's identifier, of 32 bytes."""
        return hashlib.sha256(self.der).digest()

    def verifies(self, token: bytes) -> bool:
        """Returns True if the issuer signed the token.

        Args:
            token: The token.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding

        scheme = padding.PSS(padding.MGF1(hashes.SHA384()), SALT_BYTES)
        try:
            self._rsa_key().verify(token[TOKEN_INPUT_BYTES:], token[:TOKEN_INPUT_BYTES], scheme, hashes.SHA384())
        except InvalidSignature:
            return False
        return True

    def _rsa_key(self) -> RSAPublicKey:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

        return RSAPublicNumbers(EXPONENT, self.modulus).public_key()


@dataclass(frozen=True, repr=False)
class TokenRequest:
    """A client's request for a token: ``content`` goes to the issuer, the rest is the client's secret state.

    Args:
        key: The issuer's key.
        token_input: The part of the token that the issuer signs.
        content: The request as the issuer receives it, blinded.
        inverse_blind: The number that removes the blinding.
    """

    key: IssuerKey
    token_input: bytes
    content: bytes
    inverse_blind: int

    @classmethod
    def new(cls, key: IssuerKey, challenge: bytes) -> Self:
        """Returns a fresh request that cannot be linked to the resulting token.

        Args:
            key: The issuer's key.
            challenge: The challenge that the token is bound to.
        """
        return cls.from_randomness(
            key, challenge, os.urandom(NONCE_BYTES), os.urandom(SALT_BYTES), _draw_blinding_factor(key.modulus)
        )

    @classmethod
    def from_randomness(cls, key: IssuerKey, challenge: bytes, nonce: bytes, salt: bytes, blind: int) -> Self:
        """Returns the request of the given random values.

        Args:
            key: The issuer's key.
            challenge: The challenge that the token is bound to.
            nonce: 32 random bytes, part of the token.
            salt: 48 random bytes, the salt of the signature.
            blind: A random invertible number, the blinding factor.
        """
        token_input = TOKEN_TYPE + nonce + hashlib.sha256(challenge).digest() + key.id
        blinded = _encode_emsa_pss(token_input, salt) * pow(blind, EXPONENT, key.modulus) % key.modulus
        content = TOKEN_TYPE + key.id[-1:] + blinded.to_bytes(KEY_BYTES, "big")
        return cls(key, token_input, content, pow(blind, -1, key.modulus))

    def finish(self, response: bytes) -> bytes:
        """Returns the token.

        Args:
            response: The issuer's response.

        Raises:
            ValueError: If it is not a valid signature.
        """
        signature = int.from_bytes(response, "big") * self.inverse_blind % self.key.modulus
        token = self.token_input + signature.to_bytes(KEY_BYTES, "big")
        if len(response) != KEY_BYTES or not self.key.verifies(token):
            raise ValueError(
                f"{ERROR_PREFIX}: the issuer's response is not a signature by the key that the campaign names."
            )
        return token


@dataclass(frozen=True, repr=False)
class Issuer:
    """A reference issuer that signs blinded requests; the caller decides for whom, and how often.

    Python's integer arithmetic leaks the key through its running time. An issuer that strangers can time needs a
    constant-time implementation.

    Args:
        private: The private key.
    """

    private: RSAPrivateKey

    @classmethod
    def new(cls) -> Self:
        """Returns an issuer with a fresh key."""
        from cryptography.hazmat.primitives.asymmetric import rsa

        return cls(rsa.generate_private_key(EXPONENT, MODULUS_BITS))

    @property
    def key(self) -> IssuerKey:
        """The public key."""
        return IssuerKey(self.private.public_key().public_numbers().n)

    def sign(self, content: bytes) -> bytes:
        """Returns the blind signature of a request.

        Args:
            content: The `content` of a `TokenRequest`.

        Raises:
            ValueError: If the request is malformed or for another key.
        """
        head = TOKEN_TYPE + self.key.id[-1:]
        number = int.from_bytes(content[len(head) :], "big")
        if len(content) != len(head) + KEY_BYTES or not content.startswith(head) or number >= self.key.modulus:
            raise ValueError(f"{ERROR_PREFIX}: expected a request for a token of type 2 by this key.")
        signature = pow(number, self.private.private_numbers().d, self.key.modulus)
        if pow(signature, EXPONENT, self.key.modulus) != number:
            raise ValueError(f"{ERROR_PREFIX}: the computed signature is wrong; nothing is returned.")
        return signature.to_bytes(KEY_BYTES, "big")


def _draw_blinding_factor(modulus: int) -> int:
    """Draws a uniform invertible number, the blinding factor."""
    import math

    while True:
        number = secrets.randbelow(modulus - 1) + 1
        if math.gcd(number, modulus) == 1:
            return number


def _encode_emsa_pss(message: bytes, salt: bytes) -> int:
    """Returns the EMSA-PSS encoding of a message (RFC 8017, section 9.1.1) for keys of 2048 bits."""
    hashed = hashlib.sha384(bytes(8) + hashlib.sha384(message).digest() + salt).digest()
    block = bytes(KEY_BYTES - SALT_BYTES - HASH_BYTES - 2) + b"\x01" + salt
    mask = b"".join(hashlib.sha384(hashed + count.to_bytes(4, "big")).digest() for count in range(5))
    masked = bytearray(one ^ other for one, other in zip(block, mask, strict=False))
    masked[0] &= 0x7F
    return int.from_bytes(bytes(masked) + hashed + b"\xbc", "big")


# --- Admission rules of campaigns ---

ADMISSION_LABEL = b"shuffledp v1 admission\0"
PRIVATE_TOKEN_KIND = "rfc9578-2"
MAX_ISSUER_NAME_LENGTH = 255


class Admission(ABC):
    """A campaign's rule for who may take part.

    Each client adds a token to its messages, inside the envelope for the shuffler. The shuffler checks the token when
    it mixes and then drops it: it never reaches the analyst.
    """

    token_bytes: int
    """Size of the token that a client adds to its messages."""
    token_id_bytes: int
    """Size of the part of a token that may occur only once in a round."""

    @abstractmethod
    def to_document(self) -> dict[str, Any]:
        """Returns the rule as the campaign's document has it; ``read_admission`` is the inverse."""

    @abstractmethod
    def verify_tokens(self, tokens: Bytes, campaign: str, round_number: int) -> NDArray[np.bool_]:
        """Returns, for each row, True if its token is valid for this round.

        Args:
            tokens: Rows of `token_bytes` bytes.
            campaign: The campaign's id.
            round_number: The round.
        """

    @abstractmethod
    def token_ids(self, tokens: Bytes) -> Bytes:
        """Returns the part of each token that may occur only once in a round.

        Args:
            tokens: Rows of `token_bytes` bytes.
        """


@dataclass(frozen=True)
class PrivateTokens(Admission):
    """Admission by Privacy Pass tokens of one issuer, each valid for one round of one campaign.

    Args:
        issuer: Name of the issuer.
        key: Its public key.
    """

    issuer: str
    key: IssuerKey
    token_bytes = TOKEN_BYTES
    token_id_bytes = NONCE_BYTES

    @classmethod
    def from_document(cls, who: str, document: Mapping[str, Any]) -> Self:
        """Returns the rule that `to_document` wrote down.

        Args:
            who: Name that begins error messages.
            document: The document.

        Raises:
            ValueError: If it is anything else.
        """
        name = document.get("issuer")
        if (
            document.keys() != {"kind", "issuer", "key"}
            or not isinstance(name, str)
            or len(name) > MAX_ISSUER_NAME_LENGTH
        ):
            raise ValueError(f"{who}: its admission must have the name and the key of an issuer.")
        length = len(KEY_DER_PREFIX) + KEY_BYTES + len(KEY_DER_SUFFIX)
        return cls(name, IssuerKey.from_der(decode_base64url(who, "the issuer's key", document["key"], length)))

    def to_document(self) -> dict[str, Any]:
        return {"kind": PRIVATE_TOKEN_KIND, "issuer": self.issuer, "key": encode_base64url(self.key.der)}

    def challenge(self, campaign: str, round_number: int) -> bytes:
        """Returns the challenge that tokens of one round are bound to.

        Args:
            campaign: The campaign's id.
            round_number: The round.
        """
        return build_challenge(
            self.issuer, hashlib.sha256(build_context(ADMISSION_LABEL, campaign, round_number)).digest()
        )

    def request(self, campaign: str, round_number: int) -> TokenRequest:
        """Returns a token request: send its ``content`` to the issuer and call ``finish`` with the response.

        Args:
            campaign: The campaign's id.
            round_number: The round.
        """
        return TokenRequest.new(self.key, self.challenge(campaign, round_number))

    def verify_tokens(self, tokens: Bytes, campaign: str, round_number: int) -> NDArray[np.bool_]:
        binding = hashlib.sha256(self.challenge(campaign, round_number)).digest() + self.key.id

        def is_valid(token: bytes) -> bool:
            is_bound = token[TOKEN_INPUT_BYTES - len(binding) : TOKEN_INPUT_BYTES] == binding
            return token.startswith(TOKEN_TYPE) and is_bound and self.key.verifies(token)

        return np.array([is_valid(row.tobytes()) for row in tokens], dtype=np.bool_)

    def token_ids(self, tokens: Bytes) -> Bytes:
        return tokens[:, len(TOKEN_TYPE) : len(TOKEN_TYPE) + NONCE_BYTES]


def read_admission(who: str, document: Any) -> Admission:
    """Reads the admission rule of a campaign; raises ValueError for an unknown kind."""
    if not isinstance(document, Mapping) or document.get("kind") != PRIVATE_TOKEN_KIND:
        raise ValueError(f"{who}: this version does not know its kind of admission.")
    return PrivateTokens.from_document(who, document)
