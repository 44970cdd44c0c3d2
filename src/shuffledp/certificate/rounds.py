"""Several rounds, and rounds of some who are drawn: points (ε, δ) of one round of those who come, composed."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

from flint import arb

from shuffledp.bounds.schedule import CONDITION
from shuffledp.certificate import field
from shuffledp.certificate.chords import LossesTooFar, rational
from shuffledp.certificate.drawn_round import Draw, DrawnRounds, Size
from shuffledp.certificate.evidence import Backing, Evidence, Notice, Rebuilt, TooMany
from shuffledp.certificate.kinds import kind_of, provable
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.wording import MOST_USERS
from shuffledp.certificate.written_law import Refuted
from shuffledp.numerics.ball import precision

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

MOST_ROUNDS = 10**7
MOST_POINTS = 5_000
DISPROOF_BITS = 256
METHOD = "rounds composed in whole numbers from chords"
_RATE = re.compile(r"0\.\d{0,17}[1-9]")


@dataclass(frozen=True)
class Rounds(Backing):
    """Points of one round, how many rounds there are, and how each is drawn."""

    plan: DrawnRounds
    """How many rounds, how each is drawn, and the step of the grid on which their losses are added."""
    sizes: tuple[Size, ...]
    """One, or where coins decide some numbers that come: of those in between the smaller one serves."""
    once: Evidence
    """The law of one round, for the largest ε of a point."""

    bounds = provable()
    rounding = (
        "every point (epsilon, delta) of one round has its computed delta raised by 1e-4, 1e-3, 1e-2 or 1e-1 of "
        "itself, with which an independent proof was found; the claimed value is what an independent composition of "
        "these points gives, raised by 1e-7 of itself and then rounded up to 7 digits; "
        "every number here stands for the nearest 64-bit float, exactly"
    )

    # --- the file -----------------------------------------------------------------------------------------------

    @staticmethod
    def recognises(document: Mapping[str, Any]) -> bool:
        """Whether a file is of many rounds, or of some who are drawn."""
        return "schedule" in document

    @classmethod
    def own_fields(cls, document: Mapping[str, Any]) -> tuple[str, ...]:
        return ("schedule", "step", "sizes", *kind_of(document).own_fields(document))

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        rounds, draw = _read_schedule(fields["schedule"])
        step = field.between("step", fields["step"], 1)
        sizes = tuple(_read_size(item) for item in field.list_of("sizes", fields["sizes"]))
        if step == 0:
            raise field.bad("step must be above 0")
        if sum(len(size.points) for size in sizes) > MOST_POINTS:
            raise field.bad(f"there may be at most {MOST_POINTS} points")
        if [size.users for size in sizes] != sorted({size.users for size in sizes}):
            raise field.bad("sizes must rise")
        if len(sizes) > 1 and (draw is None or draw.drawn is not None):
            raise field.bad("there must be one size, unless coins decide")
        return cls(DrawnRounds(rounds, draw, step), sizes, kind_of(fields).read(fields))

    def document(self) -> dict[str, Any]:
        return {
            "schedule": _schedule(self.plan),
            "step": self.plan.step,
            "sizes": [{"users": size.users, "points": size.points} for size in self.sizes],
            **self.once.document(),
        }

    # --- told ---------------------------------------------------------------------------------------------------

    def statement(self, claim: Claim) -> str:
        draw, rounds = self.plan.draw, self.plan.rounds
        number = f"{rounds} round{'s' if rounds > 1 else ''}"
        least = f"by at most epsilon = {claim.epsilon!r}, delta = {claim.delta!r}."
        if draw is None:
            whose = f"of {number} of {claim.users} users"
            return f"Replacing one user's values changes the shuffled messages {whose} {least}"
        people = f"{draw.of} people" + (f", {draw.colluding} of whom collude," if draw.colluding else "")
        return (
            f"Replacing the values of one of {people} changes the shuffled messages of {number}, "
            f"in {'each of ' if rounds > 1 else ''}which {_drawn(draw, claim.users, rounds)}, {least} This {CONDITION}."
        )

    def rows(self) -> list[tuple[str, str]]:
        count = sum(len(size.points) for size in self.sizes)
        sampled = "" if self.plan.draw is None else "; samples by [VR] Proposition 2"
        return [("proof", f"{count} points of one round; rounds by [VR] Lemma 7.2{sampled}")]

    # --- proved -------------------------------------------------------------------------------------------------

    def theorem(self, claim: Claim) -> str:
        return self.once.theorem(self._once(claim))

    def _once(self, claim: Claim) -> Claim:
        """What the law in the file is for: one round of those who come, at the largest ε of a point."""
        reach = max((epsilon for size in self.sizes for epsilon, _ in size.points), default=0.0)
        return dataclasses.replace(claim, epsilon=reach, evidence=self.once)

    def proved(self, claim: Claim, notice: Notice) -> Finding:
        if claim.bound not in self.once.bounds:
            raise Refuted(f"the bound {claim.bound!r} is not that of the law in the file.")
        if not self.once.for_all_inputs:
            raise Refuted("rounds and samples are claimed for all inputs, and the law in the file is not.")
        self._demand_sizes(claim.users)
        laws = self.once.rebuilt(self._once(claim))
        found = self._points(laws, notice)
        if isinstance(found, Finding):
            return found
        sizes, method, open_ = found
        notice("composing the rounds")
        epsilon, delta = Fraction(claim.epsilon), Fraction(claim.delta)
        try:
            reached = self.plan.bound(sizes, delta).delta(epsilon) if delta else arb(1)
        except LossesTooFar as error:
            raise TooMany(str(error)) from None
        if reached <= arb(rational(delta)):
            every = "all rounds" if self.plan.rounds > 1 else "the round"
            return Finding(Verdict.YES, f"the divergence is at most delta for {every}.", method)
        refuted = self._refuted(laws, claim, notice)
        if refuted is not None:
            return refuted
        reason = f"these points give delta = {float(reached.upper()):.7g} at this epsilon."
        if open_ is not None:
            reason += f" One of them was not proved: {open_}"
        return Finding(Verdict.OPEN, reason, method)

    def _demand_sizes(self, users: int) -> None:
        """Refute numbers that do not go together."""
        draw, least, most = self.plan.draw, self.sizes[0].users, self.sizes[-1].users
        if draw is not None and draw.drawn is None:
            if users != max(1, math.floor(draw.chance * draw.secret)):
                raise Refuted("users is not how many come on average.")
            if most > draw.secret:
                raise Refuted(f"there are points of {most} users, more than there are people.")
        elif least > users:
            raise Refuted(f"the points are for {least} users, more than the {users} of the claim.")
        elif draw is not None and draw.drawn is not None and users != draw.drawn - draw.colluding:
            # Of a sample of which some stay away, the share that was drawn proves nothing.
            raise Refuted("users is not how many are drawn and do not collude.")

    def _points(self, laws: Rebuilt, notice: Notice) -> tuple[list[Size], str, str | None] | Finding:
        """The points that are proved, how, and why one is not; a finding where one is wrong."""
        count, number = sum(len(size.points) for size in self.sizes), 0
        methods: dict[str, None] = {}
        open_: str | None = None
        kept: list[Size] = []
        for size in self.sizes:
            points = []
            for epsilon, delta in size.points:
                number += 1
                notice(f"proving point {number} of {count}")
                finding = laws.judged(size.users, Fraction(epsilon), Fraction(delta), lambda text: None)
                methods |= dict.fromkeys(finding.method.split("; "))
                if finding.verdict is Verdict.NO:
                    reason = f"the point epsilon = {epsilon!r} of {size.users} users is wrong: {finding.reason}"
                    return Finding(Verdict.NO, reason, finding.method)
                if finding.verdict is Verdict.YES:
                    points.append((epsilon, delta))
                else:
                    open_ = open_ or finding.reason
            kept.append(Size(size.users, tuple(points)))
        return kept, "; ".join((METHOD, *methods)), open_

    def _refuted(self, laws: Rebuilt, claim: Claim, notice: Notice) -> Finding | None:
        """No, where one round alone is above δ by this bound; not looked at where coins decide."""
        draw = self.plan.draw
        if draw is not None and draw.drawn is None:
            return None
        notice("looking for a disproof")
        share = Fraction(1) if draw is None else draw.chance
        with precision(DISPROOF_BITS):
            inner = (arb(rational(Fraction(claim.epsilon))).expm1() / arb(rational(share))).log1p().upper()
        mantissa, exponent = inner.man_exp()
        epsilon = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
        finding = laws.judged(claim.users, epsilon, Fraction(claim.delta) / share, lambda text: None)
        if finding.verdict is not Verdict.NO:
            return None
        return Finding(Verdict.NO, f"one round alone is above delta: {finding.reason}", finding.method)


def _drawn(draw: Draw, users: int, rounds: int) -> str:
    if draw.drawn is None:
        return f"everyone takes part with probability {draw.rate}, by a coin of their own"
    came = f" and at least {users} who do not collude come" if users < draw.drawn else ""
    return f"{draw.drawn} are drawn {'anew ' if rounds > 1 else ''}at random{came}"


def _schedule(plan: DrawnRounds) -> dict[str, Any]:
    draw = plan.draw
    if draw is None:
        return {"rounds": plan.rounds}
    how = {"rate": draw.rate} if draw.drawn is None else {"drawn": draw.drawn}
    return {"rounds": plan.rounds, "of": draw.of, **how, "colluding": draw.colluding}


# --- read -------------------------------------------------------------------------------------------------------------


def _read_schedule(value: Any) -> tuple[int, Draw | None]:
    if not isinstance(value, dict):
        raise field.bad("schedule must be an object")
    if "of" not in value:
        named = field.object_of("schedule", value, ("rounds",))
        return field.integer("rounds", named["rounds"], 1, MOST_ROUNDS), None
    how = "rate" if "rate" in value else "drawn"
    named = field.object_of("schedule", value, ("rounds", "of", how, "colluding"))
    rounds = field.integer("rounds", named["rounds"], 1, MOST_ROUNDS)
    of = field.integer("of", named["of"], 1, MOST_USERS)
    colluding = field.integer("colluding", named["colluding"], 0, of - 1)
    if how == "drawn":
        return rounds, Draw(of, colluding, field.integer("drawn", named["drawn"], 1, of))
    rate = field.text("rate", named["rate"])
    if not _RATE.fullmatch(rate):
        raise field.bad("rate must be a decimal between 0 and 1, as a text without zeros at its end")
    return rounds, Draw(of, colluding, rate=rate)


def _read_size(value: Any) -> Size:
    named = field.object_of("a size", value, ("users", "points"))
    points = []
    for item in field.list_of("points", named["points"]):
        if not isinstance(item, list) or len(item) != 2:
            raise field.bad("a point must be a list of epsilon and delta")
        epsilon, delta = (
            field.between("epsilon of a point", item[0], 1000),
            field.between("delta of a point", item[1], 1),
        )
        points.append((epsilon, delta))
    if any(one[0] >= other[0] for one, other in pairwise(points)):
        raise field.bad("the epsilons of points must rise")
    return Size(field.integer("users of a size", named["users"], 1, MOST_USERS), tuple(points))
