"""The exact oracle, which the package offers to everybody; it shares no code with the rest of it."""

from __future__ import annotations

from shuffledp.testing.exact_enumeration import (
    Counts as Counts,
    RatioParameters as RatioParameters,
    Row as Row,
    Table as Table,
    add_one_message as add_one_message,
    compositions as compositions,
    hockey_stick as hockey_stick,
    hockey_stick_of_counts as hockey_stick_of_counts,
    krr_table as krr_table,
    multinomial_law as multinomial_law,
    positive_part_mean as positive_part_mean,
    random_extremal_table as random_extremal_table,
    random_table as random_table,
    shuffled_divergence as shuffled_divergence,
    shuffled_law as shuffled_law,
    variation_ratio_of_table as variation_ratio_of_table,
    worst_divergence as worst_divergence,
)
