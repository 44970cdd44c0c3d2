"""The guarantee of a collection in words: what is promised to whom, under what conditions, and what it leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass

from shuffledp.bounds.schedule import CONDITION
from shuffledp.collection.guarantee import Guarantee
from shuffledp.collection.standing import Standing
from shuffledp.document import BEYOND, GUARANTEE_DIGITS, epsilon_is, rounded_up, typed
from shuffledp.metric.amplification import MetricVariationRatio


@dataclass(frozen=True)
class PromiseText:
    """``whom``: whose data the promise is about; ``used``: what was taken as one person, and by which rules.

    ``aside`` counts the messages that were not as planned; ``standing`` is the population's ledger, where one is kept.
    """

    guarantee: Guarantee
    whom: str
    used: str
    aside: int
    standing: Standing | None

    def __str__(self) -> str:
        parts = (
            self._promise(),
            self._sample(),
            self._pairs(),
            self._despite(),
            self._alone(),
            self.used,
            self._domain(),
            self._rounds(),
            self._so_far(),
            self._set_aside(),
            self._weaker(),
        )
        return " ".join(filter(None, parts))

    def _promise(self) -> str:
        held = self.guarantee
        if math.isinf(held.stated.upper):
            return f"No ε is known that holds at δ = {typed(held.plan.delta)}: it may be {BEYOND}."
        epsilon, delta = rounded_up(held.stated.upper, GUARANTEE_DIGITS), typed(held.plan.delta)
        return (
            f"Whatever one of the {self.whom}, the probability of any set of shuffled messages "
            f"changes by at most a factor e^{epsilon}, and by {delta} beyond that: "
            f"({epsilon}, {delta})-differential privacy, by {held.stated.theorem}."
        )

    def _sample(self) -> str:
        """How users were drawn, and what is left if somebody learns who was."""
        held = self.guarantee
        if not held.schedule.is_sampled:
            return ""
        rounds = (
            "" if held.plan.rounds == 1 else f", and over {held.plan.rounds:,} rounds {epsilon_is(held.known_epsilon)}"
        )
        return (
            f"They were drawn: {held.schedule.words()}. This {CONDITION}; if it is known, a user who was drawn is "
            f"promised {epsilon_is(held.known)}{rounds}. Estimates are about those who were drawn."
        )

    def _pairs(self) -> str:
        """What near values are promised beyond that, where they are."""
        promise = self.guarantee.plan.pair_promise
        if promise is None:
            return ""
        if self.guarantee.missed_pair is not None:
            a, b = self.guarantee.missed_pair
            missed = f"Values {a} and {b}, and perhaps others, MISS the ε of their own that the plan promises"
            return f"{missed}, which was accepted by --allow-weaker."
        return f"Every two values keep {promise.words()}, as planned, by {MetricVariationRatio.theorem}."

    def _despite(self) -> str:
        """Who may collude, and with how few users the target was planned to hold."""
        plan = self.guarantee.plan
        held = f"It holds even if {plan.colluding:,} of the users tell what they sent." if plan.colluding else ""
        least = "" if plan.minimum is None else f"The target was planned to be met from {plan.minimum:,} users on."
        return " ".join(filter(None, (held, least)))

    def _alone(self) -> str:
        """What holds without the shuffler."""
        local = self.guarantee.plan.mechanism.local_epsilon
        crowd = self.guarantee.plan.mechanism.crowd
        if crowd.by_shuffler:
            whoever = " How many users took part, or collude, does not matter." if crowd.whoever_comes else ""
            return (
                "All of it rests on the shuffler, which drew the noise: to who knows the noise, or sees who sent what, "
                f"the messages promise nothing.{whoever}"
            )
        if local is None:
            return "All of it rests on the shuffler: to who sees who sent them, the messages promise nothing."
        what = "Each message alone keeps" if crowd.one_each else "All that a user sends keeps"
        return f"{what} local ε = {rounded_up(local)} even from the shuffler."

    def _domain(self) -> str:
        """What of the domain is no part of the promise."""
        read = self.guarantee.plan.read_from_data
        if not read:
            return ""
        return f"The plan's {' and '.join(read)} were read from the data: a release of its own, which no ε here covers."

    def _rounds(self) -> str:
        plan, number = self.guarantee.plan, self.guarantee.round_number
        if plan.rounds == 1:
            return ""
        which = "" if number is None else f"This is {plan.round_words(number)}. "
        return f"{which}Over {plan.rounds} such rounds: {epsilon_is(self.guarantee.epsilon, GUARANTEE_DIGITS)}."

    def _so_far(self) -> str:
        """What the people gave besides, where the ledger has more of them than the plan counts."""
        planned, held = self.guarantee.plan.rounds, self.standing
        if held is None or len(held.entries) <= planned:
            return ""
        return (
            f"The ledger has {len(held.entries):,} collections from these people, where the plan is for {planned:,}: "
            f"all together {epsilon_is(held.epsilon)} at δ = {typed(held.delta)}."
        )

    def _set_aside(self) -> str:
        if not self.aside:
            return ""
        return (
            f"{self.aside:,} messages were not as planned: as many users are taken to hide nobody, and are not counted."
        )

    def _weaker(self) -> str:
        held = self.guarantee
        if held.epsilon <= held.plan.epsilon:
            return ""
        return f"This is WEAKER than the planned ε = {typed(held.plan.epsilon)}, and was accepted by --allow-weaker."
