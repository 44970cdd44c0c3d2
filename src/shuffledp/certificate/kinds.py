"""The kinds of evidence of one round, one file each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shuffledp.certificate.added_noise import AddedNoise
from shuffledp.certificate.chosen_law import ChosenLaw
from shuffledp.certificate.every_coin import EveryCoin
from shuffledp.certificate.every_crowd import AllCrowds
from shuffledp.certificate.evidence import Evidence
from shuffledp.certificate.noisy_law import NoisyLaw
from shuffledp.certificate.one_law import OneLaw
from shuffledp.privacy.randomizer import Randomizer

KINDS: tuple[type[Evidence], ...] = (ChosenLaw, AddedNoise, EveryCoin, NoisyLaw, AllCrowds, OneLaw)
"""The first that recognises a file reads it; the last takes all that is left."""


def provable() -> tuple[str, ...]:
    """The bounds that `verify` knows how to prove: those of one law, then the others."""
    return tuple(dict.fromkeys(bound for kind in reversed(KINDS) for bound in kind.bounds))


def kind_for(randomizer: Randomizer, bound: str) -> type[Evidence] | None:
    """The kind of a claim of this bound; None where there is none."""
    return next((kind for kind in KINDS if kind.serves(randomizer, bound)), None)


def kind_of(document: Mapping[str, Any]) -> type[Evidence]:
    """The kind of a file."""
    return next((kind for kind in KINDS if kind.recognises(document)), KINDS[-1])
