"""Laws of G from tables, and their convex order, which the package offers to everybody."""

from __future__ import annotations

from shuffledp.testing.convex_order import TINY as TINY
from shuffledp.testing.convex_order import Gain as Gain
from shuffledp.testing.convex_order import excess as excess
from shuffledp.testing.convex_order import is_below as is_below
from shuffledp.testing.convex_order import law_of as law_of
from shuffledp.testing.convex_order import law_of_pair as law_of_pair
