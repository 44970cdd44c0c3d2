"""The exact oracle for several messages per user, which the package offers to everybody."""

from __future__ import annotations

from shuffledp.testing.report_oracle import (
    NOTHING as NOTHING,
    Law as Law,
    Multiset as Multiset,
    dataset_divergences as dataset_divergences,
    hockey_stick as hockey_stick,
    laws_of as laws_of,
    together as together,
    worst_divergence as worst_divergence,
)
