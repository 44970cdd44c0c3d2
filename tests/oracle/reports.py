"""The exact oracle for several messages per user, which the package offers to everybody."""

from __future__ import annotations

from shuffledp.testing.report_oracle import NOTHING as NOTHING
from shuffledp.testing.report_oracle import Law as Law
from shuffledp.testing.report_oracle import Multiset as Multiset
from shuffledp.testing.report_oracle import dataset_divergences as dataset_divergences
from shuffledp.testing.report_oracle import hockey_stick as hockey_stick
from shuffledp.testing.report_oracle import laws_of as laws_of
from shuffledp.testing.report_oracle import together as together
from shuffledp.testing.report_oracle import worst_divergence as worst_divergence
