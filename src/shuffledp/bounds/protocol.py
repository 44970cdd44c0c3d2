"""What a protocol's own paper promises, beside our numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import arb

from shuffledp.bounds.bound import Bound
from shuffledp.errors import NotApplicable
from shuffledp.privacy.curve import ClosedFormCurve, Source
from shuffledp.privacy.randomizer import HasPublishedGuarantee, Randomizer


@dataclass(frozen=True)
class _Printed:
    """ε(δ) as a protocol's paper prints it."""

    protocol: HasPublishedGuarantee
    messages: int

    def __call__(self, delta: arb) -> arb:
        return self.protocol.published_epsilon(self.messages, delta)


class ProtocolPublishedBound(Bound):
    """The guarantee that a multi-message protocol was published with.

    Theorem: the protocol's own, as printed; each curve names it.
    Requires: a protocol that quotes its paper.
    Returns: the printed ε; not checked by us, hence not returned as a guarantee.
    """

    name = "protocol-published"
    theorem = "the protocol's own published analysis"
    summary = "as printed in the protocol's paper, for comparison; not checked by us"

    def curve(self, randomizer: Randomizer, users: int) -> ClosedFormCurve:
        if not isinstance(randomizer, HasPublishedGuarantee):
            raise NotApplicable(self.name, f"{type(randomizer).__name__} gives no published analysis of its own.")
        note = "Not a guarantee of ours: the printed analysis, for comparison."
        source = Source(self.name, randomizer.published_theorem, users, guarantee=False, note=note)
        return ClosedFormCurve(source, _Printed(randomizer, users), math.inf)
