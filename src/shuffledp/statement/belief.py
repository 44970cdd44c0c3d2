"""(ε, δ) as how sure somebody can become: the posterior probability of what a person said."""

from __future__ import annotations

import math
from dataclasses import dataclass

from flint import arb

from shuffledp import argument
from shuffledp.document import rounded_up, typed
from shuffledp.numerics.ball import precision, round_down, round_up

BITS = 128
STEPS = 1000
"""Probabilities are told in tenths of a percent."""
LEAST_ROOM = 0.004
"""How far above ε the told probability must lie, so that the exception is at most 251 times δ.

No room at all would leave the exception without a bound: δ alone bounds no likelihood ratio just above e^ε.
"""


@dataclass(frozen=True)
class Belief:
    """How sure at most: ``after`` where one was ``before`` sure, except with probability ``exception``.

    Theorem: let P be the law of what is seen if the person said X, Q the law if she said anything else (any mixture),
    and D_{e^ε}(P‖Q) ≤ δ. Bayes: the posterior odds are the prior odds times P/Q. With B = {P > e^(ε+t)·Q}, t > 0:
    δ ≥ P(B) − e^ε·Q(B) ≥ (1 − e^−t)·P(B), so that P(B) ≤ δ/(1 − e^−t), and Q(B) ≤ P(B).
    Requires: the guarantee holds for every two values of the person; a mixture of others is covered by convexity.
    Returns: ``after`` is prior odds times e^(ε+t) as a probability; both are rounded up.
    """

    before: float
    after: float
    exception: float
    delta: float = 0.0
    """That of the guarantee, from which the exception follows."""

    @classmethod
    def of(cls, epsilon: float, delta: float, before: float = 0.5) -> Belief:
        """The least tenth of a percent that leaves some room above ε."""
        before = argument.open_probability("Belief", "before", before)
        if math.isinf(epsilon):
            return cls(before, 1.0, 0.0)
        with precision(BITS):
            odds = arb(before) / (1 - arb(before))
            reached = odds * (arb(epsilon) + LEAST_ROOM).exp()
            step = math.ceil(round_up(reached / (1 + reached)) * STEPS)
            if step >= STEPS:
                return cls(before, 1.0, 0.0)
            after = arb(step) / STEPS
            room = (after / (1 - after) / odds).log() - arb(epsilon)
            exception = round_up(arb(delta) / -((-room).expm1()))
        assert round_down(room) > 0, "told above what is reached"
        return cls(before, step / STEPS, min(1.0, exception), delta)

    def sentence(self) -> str:
        """In plain words."""
        before = _percent(self.before)
        if self.after >= 1.0:
            return (
                f"Somebody who is {before} sure beforehand that a person said something particular may become "
                f"more than 99.9% sure afterwards: this promises next to nothing."
            )
        return (
            f"Whoever is {before} sure beforehand that a person said something particular, and knows what everybody "
            f"else said, is at most {_percent(self.after)} sure afterwards{self._except_for()}."
        )

    def _except_for(self) -> str:
        """The probability of becoming surer, and that it is no second δ."""
        if not self.exception:
            return ""
        chance = typed(float(rounded_up(self.exception, 2)))
        return (
            f", except with probability {chance}: that is how likely messages are from which they become surer, and it "
            f"follows from ε and δ = {typed(float(rounded_up(self.delta)))} together, to which it adds nothing"
        )


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f}".rstrip("0").rstrip(".") + "%"
