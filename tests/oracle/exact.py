"""The exact oracle, which the package offers to everybody; it shares no code with the rest of it."""

from __future__ import annotations

from shuffledp.testing.oracle import Counts as Counts
from shuffledp.testing.oracle import Parameters as Parameters
from shuffledp.testing.oracle import Row as Row
from shuffledp.testing.oracle import Table as Table
from shuffledp.testing.oracle import add_one_message as add_one_message
from shuffledp.testing.oracle import compositions as compositions
from shuffledp.testing.oracle import hockey_stick as hockey_stick
from shuffledp.testing.oracle import hockey_stick_of_counts as hockey_stick_of_counts
from shuffledp.testing.oracle import krr_table as krr_table
from shuffledp.testing.oracle import multinomial_law as multinomial_law
from shuffledp.testing.oracle import positive_part_mean as positive_part_mean
from shuffledp.testing.oracle import random_extremal_table as random_extremal_table
from shuffledp.testing.oracle import random_table as random_table
from shuffledp.testing.oracle import shuffled_divergence as shuffled_divergence
from shuffledp.testing.oracle import shuffled_law as shuffled_law
from shuffledp.testing.oracle import variation_ratio_of_table as variation_ratio_of_table
from shuffledp.testing.oracle import worst_divergence as worst_divergence
