"""The exact oracle for several messages per user, which the package offers to everybody."""

from __future__ import annotations

from shuffledp.testing.multi_message_divergence import (
    EMPTY_MULTISET_LAW as EMPTY_MULTISET_LAW,
    Law as Law,
    Multiset as Multiset,
    dataset_divergences as dataset_divergences,
    hockey_stick as hockey_stick,
    report_laws as report_laws,
    union_law as union_law,
    worst_divergence as worst_divergence,
)
