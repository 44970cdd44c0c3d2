"""Any randomizer that is (ε0, δ0)-private by itself, and nothing else known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from flint import arb, fmpq

from shuffledp import argument
from shuffledp.document import typed
from shuffledp.errors import NotApplicable
from shuffledp.numerics.ball import precision, rational, round_down, round_up
from shuffledp.privacy.cut_randomizer import CutRandomizer
from shuffledp.privacy.others import BITS, Others
from shuffledp.privacy.pair import HidingPair
from shuffledp.privacy.randomizer import HasTails, Randomizer
from shuffledp.privacy.ratio_others import of_cut_ratios
from shuffledp.privacy.record import Record
from shuffledp.privacy.variation_ratio import VariationRatio

_WHO = "ApproximateLDP"


@dataclass(frozen=True)
class ApproximateLDP(Randomizer, HasTails, Record):
    """Any randomizer whose message alone is (``epsilon``, ``delta``)-private, for every two inputs.

    Shuffled among n, δ0 counts about twice, whatever n is: a δ of 1e-6 can be had with δ0 = 1e-7.

    >>> import shuffledp as sdp
    >>> curve = sdp.amplify(sdp.ApproximateLDP(epsilon=1.0, delta=1e-9), users=10_000, bound="all-crowds")
    >>> f"{curve.epsilon(delta=1e-6).upper:.4f}"
    '0.0380'
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = argument.positive_finite(_WHO, "epsilon", self.epsilon, up=True)
        delta = argument.open_probability(_WHO, "delta", self.delta)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        most = self.most_delta(epsilon)
        if delta > most:
            raise ValueError(
                f"{_WHO}: delta must be at most (1 - exp(-epsilon))/4 = {most:.6g} for epsilon = {epsilon!r}, got "
                f"{delta!r}; more of it needs a larger epsilon."
            )

    @staticmethod
    def most_delta(epsilon: float) -> float:
        """The largest δ0 for which the theorem holds, rounded down."""
        with precision(BITS):
            return round_down((1 - (-arb(epsilon)).exp()) / 4)

    @cached_property
    def ratio(self) -> fmpq:
        """e^ε0, rounded up."""
        return rational(VariationRatio.of_ldp(self.epsilon).p)

    @property
    def has_tails(self) -> bool:
        return True

    @property
    def holds_for(self) -> str:
        return f"any ({typed(self.epsilon)}, {typed(self.delta)})-LDP randomizer"

    def without_tails(self, share: float) -> CutRandomizer:
        del share
        return CutLDP(self)

    def variation_ratio(self) -> VariationRatio:
        raise NotApplicable(_WHO, "delta is above 0: no ratios bound its laws.")

    def blankets(self) -> Sequence[HidingPair]:
        """None: parameters fix no law."""
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        """Those on ε0-LDP randomizers, which are (ε0, δ0)-LDP as well."""
        return VariationRatio.of_ldp(self.epsilon).attacks()


@dataclass(frozen=True)
class CutLDP(CutRandomizer, Record):
    """What is left where all ratios above e^ε0 are cut, for one other user after the other.

    Theorem: absent user with δ0 (docs/crowds.md): D ≤ Σ_h γ(1−γκ)^h·(U(M−h) + δ0·(1+e^ε)) + (1−γκ)^M, κ = 1 − 2δ0.
    Requires: δ0 ≤ (1 − e^−ε0)/4.
    """

    whole: ApproximateLDP

    def lost(self, epsilon: float) -> float:
        """δ0·(1+e^ε)/(1−2δ0)."""
        with precision(BITS):
            delta = arb(self.whole.delta)
            return round_up(delta * (1 + arb(epsilon).exp()) / (1 - 2 * delta))

    def variation_ratio(self) -> VariationRatio:
        return self.whole.variation_ratio()

    def blankets(self) -> Sequence[HidingPair]:
        return ()

    def attacks(self) -> Sequence[HidingPair]:
        return ()

    def others(self) -> Sequence[Others]:
        return (of_cut_ratios(self.whole.ratio, 2 * rational(self.whole.delta)),)
