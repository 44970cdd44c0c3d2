"""Laws of G from tables, and their convex order, which the package offers to everybody."""

from __future__ import annotations

from shuffledp.testing.convex_order import (
    TINY as TINY,
    Gain as Gain,
    excess as excess,
    is_below as is_below,
    law_of as law_of,
    law_of_pair as law_of_pair,
)
