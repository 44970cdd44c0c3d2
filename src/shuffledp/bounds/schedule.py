"""``Schedule``: who takes part in each round, in how many rounds, and what that means for privacy.

The users of a round are always the same ones, a fixed number drawn from a population, or whoever of a population a coin
decides for. Samples are drawn anew each round, and nobody may learn who was drawn: where somebody does, what holds is
the curve without them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Self

from shuffledp import argument
from shuffledp.bounds import best
from shuffledp.bounds.amplify import MOST_USERS, BoundChoice, amplify
from shuffledp.bounds.nonresponse import LARGEST_DELTA, failure_of, nonresponse
from shuffledp.bounds.subsampling import poisson, subsample
from shuffledp.composition.sequential import compose
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer import Randomizer

WHO = "Schedule"
DIGITS = 18
"""Decimals of a rate: coins of such a probability are drawn exactly from one word."""
CONDITION = "holds only if nobody learns who was drawn"


def exact_rate(who: str, given: Any) -> Fraction:
    """A probability as it is written, such as 2%, "0.02" or 0.02; a decimal, above 0 and at most 1."""
    text = given.strip() if isinstance(given, str) else None
    try:
        if text is not None:
            number = Fraction(Decimal(text.removesuffix("%"))) / (100 if text.endswith("%") else 1)
        elif isinstance(given, float) and math.isfinite(given):
            # Whoever writes 0.02 means the decimal.
            number = Fraction(Decimal(repr(given)))
        else:
            number = argument.exact(who, "rate", given)
    except (InvalidOperation, OverflowError, ValueError):
        raise ValueError(f"{who}: rate must be a number such as 2% or 0.02, got {argument.shown(given)}.") from None
    if not 0 < number <= 1:
        raise ValueError(f"{who}: rate must be above 0 and at most 1, got {argument.shown(given)}.")
    if (number * 10**DIGITS).denominator != 1:
        raise ValueError(f"{who}: rate must be a decimal of at most {DIGITS} digits, got {argument.shown(given)}.")
    return number


def rate_text(rate: Fraction) -> str:
    """A rate as the decimal that it is."""
    digits = f"{int(rate * 10**DIGITS):0{DIGITS + 1}d}"
    return f"{digits[:-DIGITS]}.{digits[-DIGITS:]}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Schedule:
    """Who takes part, and how often.

    ``users`` alone: these users, the same ones in each of ``rounds`` rounds. ``users`` and ``of``: so many, drawn
    secretly and without replacement out of ``of`` people, anew each round. ``of`` and ``rate``: each of ``of`` people
    takes part with this probability, decided secretly by a coin of their own; 2%, "0.02" and 0.02 are the same.

    >>> import shuffledp as sdp
    >>> weekly = sdp.Schedule(users=1000, of=50_000, rounds=52)
    >>> value = weekly.curve(sdp.KRR(epsilon=1.0, options=16), effort="quick").epsilon(delta=1e-6)
    >>> known = weekly.known(sdp.KRR(epsilon=1.0, options=16), effort="quick").epsilon(delta=1e-6)
    >>> value.upper < 0.008, 0.5 < known.upper < 0.54
    (True, True)
    """

    users: int | None = None
    of: int | None = None
    rate: Fraction | None = None
    rounds: int = 1
    came: int | None = None
    """The number of those drawn who took part in each round; None where all of them do."""
    failure: float | None = None
    """The part of δ that pays for each round's not knowing who else would have taken part, where some may not."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", argument.count(WHO, "rounds", self.rounds))
        if self.of is not None:
            object.__setattr__(self, "of", argument.count(WHO, "of", self.of))
        if self.rate is not None:
            self._check_coins()
        elif self.users is None:
            raise ValueError(f"{WHO}: expected users, or of and rate, got neither.")
        else:
            object.__setattr__(self, "users", argument.count(WHO, "users", self.users, at_most=MOST_USERS))
            if self.of is not None and self.of < self.expected:
                raise ValueError(f"{WHO}: of must be at least the {self.users} users who are drawn, got {self.of}.")

    def _check_coins(self) -> None:
        rate = exact_rate(WHO, self.rate)
        if self.of is None:
            raise ValueError(f"{WHO}: rate needs of, the number of people for each of whom a coin decides.")
        if self.users is not None:
            raise ValueError(f"{WHO}: give users or rate, not both: how many come is left to the coins.")
        if rate * self.of < 1:
            raise ValueError(f"{WHO}: of times rate must be at least 1 person a round, got {float(rate * self.of):g}.")
        object.__setattr__(self, "rate", rate)

    # --- who ----------------------------------------------------------------------------------------------------

    @property
    def is_sampled(self) -> bool:
        """Whether not everybody takes part each time."""
        return self.share < 1

    @property
    def people(self) -> int:
        """How many are in it, drawn or not."""
        return self.expected if self.of is None else self.of

    @property
    def expected(self) -> int:
        """How many take part in a round; on average where coins decide."""
        if self.rate is None:
            assert self.users is not None, "checked when it was made"
            return self.users
        assert self.of is not None, "checked when it was made"
        return math.floor(self.rate * self.of)

    @property
    def share(self) -> Fraction:
        """How probably a person takes part in a round."""
        if self.rate is not None:
            return self.rate
        return Fraction(1) if self.of is None else Fraction(self.expected, self.of)

    def scaled_to(self, users: int) -> Self:
        """The same share of as many people as make so many users a round."""
        if self.rate is not None:
            return replace(self, of=math.ceil(users / self.rate))
        of = None if self.of is None else max(users, min(self.of, self.of * users // self.expected))
        return replace(self, users=users, of=of)

    def answered_by(self, users: int, delta: float) -> Self:
        """The same if so many take part in a round, of a sample whoever would have: for δ of all rounds together.

        More people than can have been drawn are no sample.
        """
        most = self.users if self.rate is None else self.of
        if not self.is_sampled or most is None or users > most or delta > LARGEST_DELTA:
            return replace(self, users=users, of=None, rate=None)
        return replace(self, came=users, failure=failure_of(delta, self.rounds))

    @property
    def taking_part(self) -> int:
        """The number of people who take part in a round, and hide each other."""
        return self.expected if self.came is None else self.came

    def each_round(self) -> Self:
        """The same for one round."""
        return replace(self, rounds=1)

    # --- privacy ------------------------------------------------------------------------------------------------

    def curve(
        self,
        randomizer: Randomizer,
        *,
        bound: BoundChoice = best.NAME,
        colluding: float = 0,
        effort: str = best.FULL,
    ) -> PrivacyCurve:
        """The curve of all rounds, if nobody learns who was drawn; the arguments are as in ``amplify``.

        ``colluding`` people of all who may be drawn tell what they sent, and whether they were drawn.
        """
        once = self._once(randomizer, bound, colluding, effort)
        return once if self.rounds == 1 else compose(once, self.rounds)

    def known(
        self,
        randomizer: Randomizer,
        *,
        bound: BoundChoice = best.NAME,
        colluding: float = 0,
        effort: str = best.FULL,
    ) -> PrivacyCurve:
        """The curve of all rounds if everybody learns who was drawn, of a person who is drawn each time."""
        if self.rate is None or self.came is not None:
            once = amplify(randomizer, self.taking_part, bound=bound, colluding=colluding, effort=effort)
        else:
            once = self._coins(randomizer, bound, colluding, effort, secret=False)
        return once if self.rounds == 1 else compose(once, self.rounds)

    def _once(self, randomizer: Randomizer, bound: BoundChoice, colluding: float, effort: str) -> PrivacyCurve:
        if self.came is not None:
            return self._answered(randomizer, bound, colluding, effort)
        if self.rate is not None:
            return self._coins(randomizer, bound, colluding, effort, secret=True)
        once = amplify(randomizer, self.expected, bound=bound, colluding=colluding, effort=effort)
        return once if self.of is None else subsample(once, self.of)

    def _answered(self, randomizer: Randomizer, bound: BoundChoice, colluding: float, effort: str) -> PrivacyCurve:
        assert self.came is not None, "asked for only where some may have stayed away"
        assert self.of is not None, "checked when it was made"
        assert self.failure is not None, "given with those who came"
        lost = argument.count(WHO, "colluding", colluding, at_least=0)
        asked = self.users if self.rate is None else None
        return nonresponse(
            randomizer, self.came, self.of, failure=self.failure, asked=asked, rate=self.rate, bound=bound,
            colluding=lost, effort=effort,
        )  # fmt: skip

    def _coins(
        self, randomizer: Randomizer, bound: BoundChoice, colluding: float, effort: str, *, secret: bool
    ) -> PrivacyCurve:
        assert self.of is not None, "checked when it was made"
        assert self.rate is not None, "asked for only where coins decide"
        return poisson(
            randomizer,
            self.of,
            self.rate,  # type: ignore[arg-type]
            bound=bound,
            colluding=colluding,
            effort=effort,
            secret=secret,
        )

    # --- told ---------------------------------------------------------------------------------------------------

    def drawn(self) -> dict[str, Any]:
        """How a round is drawn, for JSON; nothing where everybody takes part."""
        if not self.is_sampled:
            return {}
        return {"of": self.of, **({} if self.rate is None else {"rate": rate_text(self.rate)})}

    def document(self) -> dict[str, Any]:
        """For JSON: the rounds, and how each is drawn; None where everybody takes part."""
        return {"rounds": self.rounds, "of": None, "rate": None} | self.drawn()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """From ``users``, ``rounds`` and what ``drawn`` tells; where coins decide, ``users`` is what follows."""
        of, rate = document.get("of"), document.get("rate")
        users = None if rate is not None else document["users"]
        return cls(users, of, rate, document.get("rounds", 1))

    def words(self) -> str:
        """How a round is drawn; empty where everybody takes part."""
        if not self.is_sampled:
            return ""
        came = "" if self.came is None else f"; {self.came:,} came"
        if self.rate is None:
            return f"{self.expected:,} of {self.of:,}, secretly, each round anew{came}"
        return f"each of {self.of:,} by a secret coin of {rate_text(self.rate * 100)}%, each round anew{came}"

    def rows(self) -> list[tuple[str, str]]:
        """For the terminal: what is not one round of everybody."""
        drawn = [("drawn", self.words())] if self.is_sampled else []
        return drawn + ([] if self.rounds == 1 else [("rounds", f"{self.rounds:,}")])

    def condition(self, known: str) -> list[tuple[str, str]]:
        """What the promise rests on, beside what is left without it; nothing where nobody is drawn."""
        return [("condition", f"{CONDITION}; if it is known: {known}")] if self.is_sampled else []
