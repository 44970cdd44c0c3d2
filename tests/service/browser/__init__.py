"""Tests of the module that pages run: its recipes' laws, bytes against vectors, and pages in a real browser."""

from __future__ import annotations

from shuffledp import (
    KRR,
    OUE,
    RAPPOR,
    CancellingNoise,
    Duchi,
    LocalHash,
    MixDUMP,
    Piecewise,
    Plan,
    PureDUMP,
    SplitAndMix,
    Subset,
    WitchHat,
    tasks,
)
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.service.browser.recipes import MechanismRecipe, build_recipe

WITH_TABLES: dict[str, Mechanism] = {
    "krr": KRR(0.5, 3),
    "krr of two": KRR(2.0, 2),
    "pure-dump": PureDUMP(3, dummies=2),
    "pure-dump with blanks": PureDUMP(4, dummies=1, share=0.3),
    "mix-dump": MixDUMP(3, flip=0.4, dummies=2),
    "mix-dump with blanks": MixDUMP(4, flip=0.1, dummies=1, share=0.6),
    "oue": OUE(1.0, 6),
    "rappor": RAPPOR(0.5, 3),
    "local-hash": LocalHash(0.5, 7, length=2),
    "local-hash of many buckets": LocalHash(2.0, 8, length=5),
    "subset by bits": Subset(0.5, 6),
    "subset by numbers": Subset(3.0, 7, size=2),
    "subset but one": Subset(2.0, 5, size=4),
    "piecewise": Piecewise(0.5, grid=7),
    "witch-hat": WitchHat(2.0, half_width=3.0, scale=2.0, grid=5),
    "witch-hat of one step": WitchHat(1.0, grid=1, scale=8.0),
    "duchi": Duchi(1.0, 1),
}
"""Whose law can be written down."""
WITHOUT_TABLES: dict[str, Mechanism] = {
    "split-and-mix": SplitAndMix(rate=0.05, levels=20, modulus=100_003, messages=4, honest=2, low=-1.0, high=0.5),
    "split-and-mix of a fast rate": SplitAndMix(rate=2.5, levels=1, modulus=1 << 60, messages=2, honest=1),
    "cancelling-noise": CancellingNoise(options=4, rate=0.7, shape=5.0, ratio=0.6, honest=3, places=40),
    "cancelling-noise of little": CancellingNoise(options=300, rate=0.7, shape=5.0, ratio=0.6, honest=3000, places=5),
    "cancelling-noise by the shuffler": CancellingNoise(options=3, rate=0.8, shape=6.0, ratio=0.7, honest=0),
}
LARGE_MECHANISMS: dict[str, Mechanism] = {
    "krr of many": KRR(9.0, 1_000_000),
    "oue of many": OUE(3.0, 1000),
    "local-hash of very many": LocalHash(2.0, 10**12),
    "subset of many": Subset(2.0, 5000, size=40),
    "piecewise of the default": Piecewise(2.0),
    "witch-hat of the default": WitchHat(8.15, scale=0.125),
    "split-and-mix of many": SplitAndMix(rate=1 / 645, levels=645, modulus=1 << 27, messages=8, honest=100_000),
}
MECHANISMS = WITH_TABLES | WITHOUT_TABLES | LARGE_MECHANISMS


def plan_with(mechanism: Mechanism, users: int = 1000) -> Plan:
    """A plan with this mechanism; what it promises is not looked at."""
    options = getattr(mechanism, "options", None)
    task = tasks.Mean(-2.0, 10.0) if options is None else tasks.Frequency(options)
    return Plan(task, mechanism, users=users, epsilon=1.0, delta=1e-6)


def program_for(mechanism: Mechanism) -> MechanismRecipe:
    """Of such a plan."""
    return build_recipe(plan_with(mechanism))
