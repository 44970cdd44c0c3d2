"""``Participation``: who takes part in each round, in how many rounds, and the privacy that follows.

The users of a round are always the same, a fixed number drawn from a population, or each member of a population with
some probability. Samples are drawn anew each round. The amplification by sampling holds only if nobody learns who was
drawn; otherwise the curve without it (``Participation.disclosed_sample_curve``) applies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Self

from shuffledp._core import validation
from shuffledp.bounds import pointwise_minimum, registry
from shuffledp.bounds.amplify import MAX_USERS, BoundChoice, amplify
from shuffledp.bounds.subsampling import MAX_DELTA, nonresponse, poisson, round_failure, subsample
from shuffledp.privacy.composition import compose
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.privacy.randomizer_interface import Randomizer

MAX_RATE_DIGITS = 18
"""Largest number of decimal places of a rate; coins of such a probability are drawn exactly from one word."""
SAMPLING_SECRECY_CONDITION = "holds only if nobody learns who was drawn"


def parse_rate(who: str, written: Any) -> Fraction:
    """Returns a probability exactly as written, such as 2%, "0.02" or 0.02: a decimal above 0 and at most 1."""
    text = written.strip() if isinstance(written, str) else None
    try:
        if text is not None:
            number = Fraction(Decimal(text.removesuffix("%"))) / (100 if text.endswith("%") else 1)
        elif isinstance(written, float) and math.isfinite(written):
            # A user who writes 0.02 means the decimal, not the nearest binary fraction.
            number = Fraction(Decimal(repr(written)))
        else:
            number = validation.exact(who, "rate", written)
    except (InvalidOperation, OverflowError, ValueError):
        shown = validation.format_value(written)
        raise ValueError(f"{who}: rate must be a number such as 2% or 0.02, got {shown}.") from None
    shown = validation.format_value(written)
    if not 0 < number <= 1:
        raise ValueError(f"{who}: rate must be above 0 and at most 1, got {shown}.")
    if (number * 10**MAX_RATE_DIGITS).denominator != 1:
        raise ValueError(f"{who}: rate must be a decimal of at most {MAX_RATE_DIGITS} digits, got {shown}.")
    return number


def format_rate(rate: Fraction) -> str:
    """Returns a rate as an exact decimal."""
    digits = f"{int(rate * 10**MAX_RATE_DIGITS):0{MAX_RATE_DIGITS + 1}d}"
    return f"{digits[:-MAX_RATE_DIGITS]}.{digits[-MAX_RATE_DIGITS:]}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Participation:
    """The users who take part in each round, and the number of rounds.

    There are three forms. ``users`` alone: the same users in every round. ``users`` and ``of``: so many users, drawn
    secretly and without replacement from ``of`` people, anew each round. ``of`` and ``rate``: each of ``of`` people
    takes part with this probability, decided secretly and independently.

    Args:
        users: Number of users a round; None where ``rate`` decides.
        of: Size of the population that users are drawn from; None if everybody takes part.
        rate: Probability that a person takes part in a round, a decimal: 2%, "0.02" and 0.02 are the same.
        rounds: Number of rounds.
        came: Number of people drawn who took part in each round; None if all of them do.
        failure: Part of δ, for each round, that covers the unknown number of people who would have taken part if drawn;
            set together with ``came``.

    Raises:
        TypeError: If a number is not one.
        ValueError: If a number is out of range, ``of`` is below ``users``, or the combination is none of the three
            forms.

    >>> import shuffledp as sdp
    >>> weekly = sdp.Participation(users=1000, of=50_000, rounds=52)
    >>> value = weekly.curve(sdp.KRR(epsilon=1.0, options=16), effort="quick").epsilon(delta=1e-6)
    >>> known = weekly.disclosed_sample_curve(sdp.KRR(epsilon=1.0, options=16), effort="quick").epsilon(delta=1e-6)
    >>> value.upper < 0.008, 0.5 < known.upper < 0.54
    (True, True)
    """

    users: int | None = None
    of: int | None = None
    rate: Fraction | None = None
    rounds: int = field(default=1, metadata=validation.checked(validation.count))
    came: int | None = None
    failure: float | None = None

    def __post_init__(self) -> None:
        validation.check_fields(self)
        if self.of is not None:
            object.__setattr__(self, "of", validation.count("Participation", "of", self.of))
        if self.rate is not None:
            self._check_rate()
        elif self.users is None:
            raise ValueError("Participation: expected users, or of and rate, got neither.")
        else:
            object.__setattr__(self, "users", validation.count("Participation", "users", self.users, at_most=MAX_USERS))
            if self.of is not None and self.of < self.expected_users:
                raise ValueError(
                    f"Participation: of must be at least the {self.users} users who are drawn, got {self.of}."
                )

    def _check_rate(self) -> None:
        rate = parse_rate("Participation", self.rate)
        if self.of is None:
            raise ValueError("Participation: rate needs of, the number of people who each take part at this rate.")
        if self.users is not None:
            raise ValueError("Participation: give users or rate, not both: the number of users follows from the rate.")
        if rate * self.of < 1:
            raise ValueError(
                f"Participation: of times rate must be at least 1 person a round, got {float(rate * self.of):g}."
            )
        object.__setattr__(self, "rate", rate)

    # --- Participants ---

    @property
    def is_sampled(self) -> bool:
        """True if only a sample takes part in each round."""
        return self.share < 1

    @property
    def population_size(self) -> int:
        """The size of the population, drawn or not."""
        return self.expected_users if self.of is None else self.of

    @property
    def expected_users(self) -> int:
        """The number of users in a round; with a rate the mean, rounded down."""
        if self.rate is None:
            assert self.users is not None
            return self.users
        assert self.of is not None
        return math.floor(self.rate * self.of)

    @property
    def share(self) -> Fraction:
        """The probability that a person takes part in a round."""
        if self.rate is not None:
            return self.rate
        return Fraction(1) if self.of is None else Fraction(self.expected_users, self.of)

    def scaled_to(self, users: int) -> Self:
        """Returns the same form of participation for another number of users.

        Args:
            users: Number of users a round.

        Returns:
            The participation with the same rate, or about the same share of a population that is scaled accordingly.
        """
        if self.rate is not None:
            return replace(self, of=math.ceil(users / self.rate))
        of = None if self.of is None else max(users, min(self.of, self.of * users // self.expected_users))
        return replace(self, users=users, of=of)

    def with_respondents(self, users: int, delta: float) -> Self:
        """Returns the participation after the number of people who took part is known.

        Args:
            users: Number of people who took part in each round.
            delta: The δ of all rounds together; a part of it becomes ``failure``.

        Returns:
            For a sample, the same participation with ``came`` and ``failure``. Without sampling, or if more people came
            than can have been drawn, or if ``delta`` is too large, just these users in every round.
        """
        most = self.users if self.rate is None else self.of
        if not self.is_sampled or most is None or users > most or delta > MAX_DELTA:
            return replace(self, users=users, of=None, rate=None)
        return replace(self, came=users, failure=round_failure(delta, self.rounds))

    @property
    def participants(self) -> int:
        """The number of people who take part in a round and hide each other."""
        return self.expected_users if self.came is None else self.came

    def single_round(self) -> Self:
        """Returns the participation in one of the rounds."""
        return replace(self, rounds=1)

    # --- Privacy curves ---

    def curve(
        self,
        randomizer: Randomizer,
        *,
        bound: BoundChoice = pointwise_minimum.BEST_BOUND_NAME,
        colluding: float = 0,
        effort: str = registry.FULL_EFFORT,
    ) -> PrivacyCurve:
        """Returns the privacy curve of all rounds, if nobody learns who was drawn.

        Args:
            randomizer: As in ``amplify``.
            bound: As in ``amplify``.
            colluding: Number of people, of all who may be drawn, who reveal their messages and whether they were drawn.
            effort: As in ``amplify``.

        Returns:
            An upper bound of δ(ε) for every person of the population.

        Raises:
            TypeError: As ``amplify`` does.
            ValueError: As ``amplify`` does, or if the curve of a sample is for chosen inputs only.
            NotApplicable: If none of the chosen bounds applies.
        """
        once = self._round_curve(randomizer, bound, colluding, effort)
        return once if self.rounds == 1 else compose(once, self.rounds)

    def disclosed_sample_curve(
        self,
        randomizer: Randomizer,
        *,
        bound: BoundChoice = pointwise_minimum.BEST_BOUND_NAME,
        colluding: float = 0,
        effort: str = registry.FULL_EFFORT,
    ) -> PrivacyCurve:
        """Returns the privacy curve of all rounds if everybody learns who was drawn.

        Args:
            randomizer: As in ``amplify``.
            bound: As in ``amplify``.
            colluding: As in ``curve``.
            effort: As in ``amplify``.

        Returns:
            An upper bound of δ(ε) for a person who is drawn in every round.

        Raises:
            TypeError: As ``amplify`` does.
            ValueError: As ``amplify`` does.
            NotApplicable: If none of the chosen bounds applies.
        """
        if self.rate is None or self.came is not None:
            once = amplify(randomizer, self.participants, bound=bound, colluding=colluding, effort=effort)
        else:
            once = self._poisson_curve(randomizer, bound, colluding, effort, secret=False)
        return once if self.rounds == 1 else compose(once, self.rounds)

    def _round_curve(self, randomizer: Randomizer, bound: BoundChoice, colluding: float, effort: str) -> PrivacyCurve:
        if self.came is not None:
            return self._nonresponse_curve(randomizer, bound, colluding, effort)
        if self.rate is not None:
            return self._poisson_curve(randomizer, bound, colluding, effort, secret=True)
        once = amplify(randomizer, self.expected_users, bound=bound, colluding=colluding, effort=effort)
        return once if self.of is None else subsample(once, self.of)

    def _nonresponse_curve(
        self, randomizer: Randomizer, bound: BoundChoice, colluding: float, effort: str
    ) -> PrivacyCurve:
        assert self.came is not None
        assert self.of is not None
        assert self.failure is not None
        lost = validation.count("Participation", "colluding", colluding, at_least=0)
        return nonresponse(
            randomizer, self.came, self.of, failure=self.failure, drawn=self.users if self.rate is None else None,
            rate=self.rate, bound=bound, colluding=lost, effort=effort,
        )  # fmt: skip

    def _poisson_curve(
        self, randomizer: Randomizer, bound: BoundChoice, colluding: float, effort: str, *, secret: bool
    ) -> PrivacyCurve:
        assert self.of is not None
        assert self.rate is not None
        return poisson(
            randomizer,
            self.of,
            self.rate,  # type: ignore[arg-type]
            bound=bound,
            colluding=colluding,
            effort=effort,
            secret=secret,
        )

    # --- JSON and text ---

    def sampling_document(self) -> dict[str, Any]:
        """Returns the JSON fields of the sampling; empty if everybody takes part."""
        if not self.is_sampled:
            return {}
        return {"of": self.of, **({} if self.rate is None else {"rate": format_rate(self.rate)})}

    def to_document(self) -> dict[str, Any]:
        """Returns the JSON fields of the rounds and the sampling; None stands for no sampling."""
        return {"rounds": self.rounds, "of": None, "rate": None} | self.sampling_document()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Reads a participation from JSON fields.

        Args:
            document: The fields ``users``, ``rounds`` (default 1) and those of ``sampling_document``. If there is a
                ``rate``, ``users`` is ignored because it follows from the rate.

        Returns:
            The participation.

        Raises:
            KeyError: If ``users`` is missing and there is no ``rate``.
            ValueError: If the fields do not describe a participation.
        """
        of, rate = document.get("of"), document.get("rate")
        users = None if rate is not None else document["users"]
        return cls(users, of, rate, document.get("rounds", 1))

    def describe(self) -> str:
        """Returns the sampling in words; empty if everybody takes part."""
        if not self.is_sampled:
            return ""
        came = "" if self.came is None else f"; {self.came:,} came"
        if self.rate is None:
            return f"{self.expected_users:,} of {self.of:,}, secretly, each round anew{came}"
        return f"each of {self.of:,} by a secret coin of {format_rate(self.rate * 100)}%, each round anew{came}"

    def rows(self) -> list[tuple[str, str]]:
        """Returns the rows for the terminal that differ from one round of everybody."""
        drawn = [("drawn", self.describe())] if self.is_sampled else []
        return drawn + ([] if self.rounds == 1 else [("rounds", f"{self.rounds:,}")])

    def condition_rows(self, known: str) -> list[tuple[str, str]]:
        """Returns the row with the condition of the guarantee; empty if nobody is drawn.

        Args:
            known: Text of the guarantee that is left if the condition fails.

        Returns:
            At most one row, a name and a text.
        """
        return [("condition", f"{SAMPLING_SECRECY_CONDITION}; if it is known: {known}")] if self.is_sampled else []
