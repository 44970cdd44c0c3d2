"""Cancelling noise: the true option in the clear, and messages for and against options that cancel but for little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shuffledp import argument
from shuffledp.array import Array, Integers
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.mechanisms.output_table import OutputTable
from shuffledp.mechanisms.parts.crowd import SharedNoise
from shuffledp.mechanisms.parts.flood_design import flood_within
from shuffledp.mechanisms.parts.flooded_noise import BITS, FloodedLoss, FloodedNoise
from shuffledp.mechanisms.parts.noise_share import NoiseShare
from shuffledp.mechanisms.parts.own_noise_law import OwnNoiseLaw
from shuffledp.mechanisms.parts.signed_count import SignedCounts
from shuffledp.mechanisms.parts.user_values import OneOption
from shuffledp.mechanisms.parts.wire import WholeNumberWire
from shuffledp.mechanisms.tuning import Tuning
from shuffledp.numerics.ball import precision, round_up
from shuffledp.privacy.near_loss import NearLoss
from shuffledp.privacy.own_loss import Facts, OwnLoss
from shuffledp.privacy.randomizer import HasOwnLoss
from shuffledp.sampling.random import RandomSource

WHO = "CancellingNoise"
MOST_OPTIONS = 1 << 61
MOST_PLACES = 1 << 12
LARGEST_RATE, LARGEST_SHAPE = 50.0, 1e5
ERRORS = (1.05, 1.1, 1.25, 1.5, 2.0, 3.0)
"""Standard errors that plans compare, in those of a curator's Laplace noise."""
USERS_AT_ONCE = 1 << 17
"""Users encoded at a time."""
LARGEST_RATIO = 1 - 2.0**-14
"""The table of a cluster's sizes has about 50/(1 − ratio) entries."""


@dataclass(frozen=True)
class CancellingNoise(Mechanism, HasOwnLoss):
    """Send the true option as it is; all users together, or the shuffler, add messages for and against options.

    A message is (option, +) or (option, −), and the estimate of an option is the one count less the other. The noise
    of each option is X + F messages for it and Y + F against it: X and Y geometric with ratio e^−rate, F negative
    binomial with ``shape`` and ``ratio``. F cancels; it floods the two counts so that only their difference tells
    anything. So the error is that of a curator with discrete Laplace noise of this rate.

    Each user adds 1/honest of the noise (all three laws are infinitely divisible): a few clusters of messages, drawn
    exactly, in time that does not depend on the number of options. With more users than ``honest`` there is more noise;
    fewer honest ones are accounted for by the exact law of what is left. The number of messages varies from user to
    user, whatever the value.

    ``options``: d, how many options there are; a user's value is the number of one of them, from 0. ``rate``: b, of the
    noise that is left. ``shape``, ``ratio``: of the flood. ``honest``: how many honest users make the noise together; 0
    where the shuffler draws it, once for all: then every user sends one message, and the guarantee does not depend on
    who takes part. ``places``: where above 0, every user sends exactly this many messages, blanks after her own and her
    noise, so that who sees how many each sends learns nothing; with η the chance that somebody's noise does not fit,
    (1 + e^ε)·η is part of δ. There is no local ε.

    Theorem: [GKMPS21] for binary sums; histograms and the exact loss are ours (docs/multimessage.md): a changed value
    moves two independent pairs of counts, whose losses have one-dimensional laws; both directions are equal.
    Requires: d ≥ 2; rate > 0; shape > 0; 0 < ratio < 1.

    >>> import shuffledp as sdp
    >>> mechanism = sdp.CancellingNoise(options=16, rate=0.45, shape=30, ratio=0.93, honest=10_000)
    >>> curve = sdp.amplify(mechanism, users=10_000)
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}", curve.epsilon(delta=1e-6).bound
    ('0.9711', 'own-noise')
    >>> f"{mechanism.messages_per_user:.2f}"
    '2.28'
    """

    options: int
    rate: float
    shape: float
    ratio: float
    honest: int
    places: int = 0

    name = "cancelling-noise"
    task = "frequency"
    summary = "the true option, and noise that cancels: a curator's error, private only by the shuffler"
    take_it = "For counts near a curator's error, where the shuffler is trusted and options are few beside the users."
    also_called = (
        "gkmps",
        "gkmps21",
    )
    tuning = (Tuning("shape", False, True, 0.1, 1e3),)
    has_table = False
    designs_a_front = True

    def __post_init__(self) -> None:
        most = MOST_OPTIONS
        object.__setattr__(self, "options", argument.count(WHO, "options", self.options, at_least=2, at_most=most))
        object.__setattr__(self, "rate", argument.positive_finite(WHO, "rate", self.rate))
        object.__setattr__(self, "shape", argument.positive_finite(WHO, "shape", self.shape))
        object.__setattr__(self, "ratio", argument.open_probability(WHO, "ratio", self.ratio))
        object.__setattr__(self, "honest", argument.count(WHO, "honest", self.honest, at_least=0))
        object.__setattr__(self, "places", argument.count(WHO, "places", self.places, at_least=0, at_most=MOST_PLACES))
        if self.places and self.honest == 0:
            raise ValueError(f"{WHO}: places are for noise that users draw; with honest = 0 there is none, got both.")
        for name, largest in (("rate", LARGEST_RATE), ("shape", LARGEST_SHAPE), ("ratio", LARGEST_RATIO)):
            if getattr(self, name) > largest:
                raise ValueError(f"{WHO}: {name} must be at most {largest:g}, got {getattr(self, name)!r}.")

    @property
    def noise(self) -> FloodedNoise:
        """The law of the noise of one option, once it is all there."""
        return FloodedNoise(self.rate, self.shape, self.ratio)

    @cached_property
    def _share(self) -> NoiseShare:
        return NoiseShare(self.noise, self.options, Fraction(1, max(1, self.honest)))

    @cached_property
    def values(self) -> OneOption:
        return OneOption(WHO, self.options)

    @property
    def law(self) -> OwnNoiseLaw:
        return OwnNoiseLaw(WHO)

    @cached_property
    def crowd(self) -> SharedNoise:
        return SharedNoise(1, self._share.messages, self.honest, self.places)

    @cached_property
    def wire(self) -> WholeNumberWire:
        return WholeNumberWire(WHO, 2 * self.options + (1 if self.places else 0))

    @cached_property
    def reading(self) -> SignedCounts:
        return SignedCounts(self.options, self.noise, self.honest)

    def own_loss(self, honest: int) -> OwnLoss:
        """More honest users than planned only add noise: the loss is at most that of as many as were planned."""
        there = Fraction(1) if self.honest == 0 else min(Fraction(1), Fraction(honest, self.honest))
        loss = FloodedLoss(FloodedNoise(self.rate, self.shape, self.ratio, there))
        if not self.places:
            return loss
        users = min(honest, self.honest)
        why = "noise fits into its places but for this chance"
        return NearLoss(loss, self._misfit(users), why, _Padding(self._share, users, self.places))

    def _misfit(self, users: int) -> float:
        """The chance that the noise of one of so many users does not fit into her places."""
        with precision(BITS):
            return min(1.0, round_up(users * self._share.chance_of_more_than(self.places - 1)))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        if self.honest == 0:
            return np.asarray(2 * values)
        if self.places:
            return self._padded(values, source)
        parts: list[Integers] = []
        for start in range(0, len(values), USERS_AT_ONCE):
            own = values[start : start + USERS_AT_ONCE]
            parts += [2 * own, self._share.draw(source, len(own))]
        return np.concatenate(parts)

    def _padded(self, values: Array, source: RandomSource) -> Array:
        """A row of places for each user: her own message, her noise, blanks."""
        rows = np.full((len(values), self.places), 2 * self.options, dtype=np.int64)
        rows[:, 0] = 2 * values
        owners, noise = self._share.draw_apart(source, len(values))
        order = np.argsort(owners, kind="stable")
        owners, noise = owners[order], noise[order]
        place = 1 + np.arange(len(owners)) - np.searchsorted(owners, owners, side="left")
        fits = place < self.places
        rows[owners[fits], place[fits]] = noise[fits]
        return rows.reshape(-1)

    def drawn_by_shuffler(self, source: RandomSource) -> Array | None:
        return self._share.draw(source, 1) if self.honest == 0 else None

    @classmethod
    def designs(
        cls, facts: Mapping[str, Any], users: int, epsilon: float, delta: float, rounds: int
    ) -> Iterator[dict[str, Any]]:
        """From little error to few messages; and the least error where the shuffler draws the noise."""
        for times in ERRORS:
            found = flood_within(times, epsilon, delta, rounds)
            if found is not None:
                rate, flood = found
                noise = {"rate": rate, "shape": flood.shape, "ratio": flood.ratio}
                if times == ERRORS[0]:
                    yield {"options": facts["options"], **noise, "honest": 0}
                yield {"options": facts["options"], **noise, "honest": users}

    def table(self) -> OutputTable:
        raise ValueError(f"{WHO}: its noise has no end, so that its law cannot be written down as a table.")

    @classmethod
    def examples(cls) -> Sequence[CancellingNoise]:
        return [
            cls(options=2, rate=1.0, shape=4.0, ratio=0.5, honest=10),
            cls(options=5, rate=0.5, shape=3.5, ratio=0.8, honest=25),
            cls(options=3, rate=0.8, shape=6.0, ratio=0.7, honest=0),
            cls(options=4, rate=0.7, shape=5.0, ratio=0.6, honest=20, places=64),
        ]


@dataclass(frozen=True)
class _Padding:
    """What the chance follows from that somebody's share of the noise does not fit, for a second proof."""

    share: NoiseShare
    users: int
    places: int

    def __call__(self) -> Facts:
        noise, each = self.share.noise, self.share.part * self.share.options
        numbers = {"users": self.users, "places": self.places, "rate": noise.rate, "ratio": noise.ratio}
        shapes = {"single": 2 * each, "pairs": Fraction(noise.shape) * each}
        return {"kind": "padded", **{name: Fraction(number) for name, number in (numbers | shapes).items()}}
