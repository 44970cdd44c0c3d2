"""``Evidence``: what a claim of one kind carries besides its numbers, and how it is proved again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from shuffledp.bounds import BOUND_OF
from shuffledp.certificate.proof import Finding, Verdict
from shuffledp.certificate.wording import Stranger, described
from shuffledp.certificate.written_law import Refuted
from shuffledp.privacy.randomizer import Randomizer

if TYPE_CHECKING:
    from shuffledp.certificate.claim import Claim

Notice = Callable[[str], None]
"""Hears what is being done."""


class TooMany(Exception):
    """There is more to prove than is looked at."""


class Rebuilt(ABC):
    """The laws of a claim's randomizer, found again: what is proved, for any number of users and any (ε, δ)."""

    @abstractmethod
    def judged(self, users: int, epsilon: Fraction, delta: Fraction, notice: Notice) -> Finding:
        """Whether one round of so many users is (ε, δ)-private by the claimed bound: yes, no, or cannot decide."""


class Backing(ABC):
    """What a claim carries besides its numbers: fields of the file, a sentence, and a proof.

    The evidence of one round (``Evidence``), or that of many rounds, which asks it for points (``certificate.rounds``).
    """

    bounds: ClassVar[tuple[str, ...]]
    rounding: ClassVar[str]

    @classmethod
    @abstractmethod
    def own_fields(cls, document: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of its own fields, in a file of this kind; all others are the claim's."""

    @classmethod
    @abstractmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """From the fields of a file; a sentence (``ValueError``) if one of its own is not as it should be."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Its own fields, for JSON."""

    @abstractmethod
    def statement(self, claim: Claim) -> str:
        """What is claimed, in words that follow from the numbers."""

    def rows(self) -> list[tuple[str, str]]:
        """What a person reads besides what every claim says."""
        return []

    @abstractmethod
    def theorem(self, claim: Claim) -> str:
        """What the claim's bound rests on, where the claim is right."""

    @abstractmethod
    def proved(self, claim: Claim, notice: Notice) -> Finding:
        """The claim proved again, unless ``Refuted``, ``Stranger`` or ``TooMany`` says why not."""

    def prove(self, claim: Claim, notice: Notice) -> Finding:
        """The claim proved again; whose bound it names is known, and its theorem is that of the bound."""
        try:
            return self.proved(claim, notice)
        except Refuted as refuted:
            return Finding(Verdict.NO, str(refuted), "the law, rebuilt")
        except Stranger as stranger:
            return Finding(Verdict.OPEN, str(stranger), "whose law it is")
        except TooMany as many:
            return Finding(Verdict.OPEN, str(many), "how many laws there are")


class Evidence(Backing):
    """What one kind of claim of one round carries, and how it is proved again: one class and one file for each kind.

    A kind is a frozen dataclass of what it writes into the file, listed in ``certificate.kinds.KINDS``. It says

    - which bounds it serves (``bounds``, ``serves``), by which ``theorem``, and which files are of its kind
      (``recognises``);
    - its own fields of the file (``fields``, ``document``) and how they are read, strictly (``read``);
    - how it is made from a randomizer (``of``), and what else is said of that (``described``);
    - by how much a value is raised, the least first (``epsilon_margins``, ``delta_margins``), in words (``rounding``),
      and whether a claim is handed out only once it is proved (``proved_when_made``);
    - the sentence that is claimed (``statement``) and rows that a person reads (``rows``);
    - whether it holds for all inputs (``for_all_inputs``), so that rounds and samples of it may be claimed;
    - how the laws are found again (``rebuilt``). Nothing in the file is believed but the question: what differs from
      the file is refuted (``Refuted``), what is not known here is left open (``Stranger``, ``TooMany``), and what is
      proved is what was found. ``Rebuilt.judged`` proves one round; claims of many rounds ask it many questions, so
      that it keeps what does not depend on (ε, δ).
    """

    fields: ClassVar[tuple[str, ...]]
    epsilon_margins: ClassVar[tuple[Decimal, ...]]
    delta_margins: ClassVar[tuple[Decimal, ...]]
    proved_when_made: ClassVar[bool] = False
    for_all_inputs: ClassVar[bool] = True

    # --- made ---------------------------------------------------------------------------------------------------

    @classmethod
    def serves(cls, randomizer: Randomizer, bound: str) -> bool:
        """Whether a claim of this bound about this is of this kind; those before it in ``KINDS`` are not."""
        return bound in cls.bounds

    @classmethod
    @abstractmethod
    def of(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        """For a claim of this bound; a sentence (``ValueError``) where it has none."""

    @classmethod
    def described(cls, randomizer: Randomizer) -> dict[str, Any]:
        """The randomizer in words that can be read back."""
        return described(randomizer)

    @classmethod
    def margins(cls, delta: float | None) -> tuple[Decimal, ...]:
        """What a value may be raised by: ε where δ is given, else δ."""
        return cls.delta_margins if delta is None else cls.epsilon_margins

    # --- the file -----------------------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        """Whether a file is of this kind; those before it in ``KINDS`` are not."""

    @classmethod
    def own_fields(cls, document: Mapping[str, Any]) -> tuple[str, ...]:
        return cls.fields

    # --- told ---------------------------------------------------------------------------------------------------

    def statement(self, claim: Claim) -> str:
        return (
            f"Replacing one user's value changes the shuffled messages of {claim.users} users "
            f"by at most epsilon = {claim.epsilon!r}, delta = {claim.delta!r}."
        )

    # --- proved -------------------------------------------------------------------------------------------------

    def theorem(self, claim: Claim) -> str:
        return BOUND_OF[claim.bound].theorem

    @abstractmethod
    def rebuilt(self, claim: Claim) -> Rebuilt:
        """The laws of the claim's randomizer, compared with the file."""

    def proved(self, claim: Claim, notice: Notice) -> Finding:
        return self.rebuilt(claim).judged(claim.users, Fraction(claim.epsilon), Fraction(claim.delta), notice)


def all_proved(findings: Iterable[Finding], origin: str, proved: str) -> Finding:
    """One finding of several: no if one is, yes only if all are; ``proved`` says of what."""
    methods: dict[str, None] = {}
    open_: Finding | None = None
    for finding in findings:
        methods[finding.method] = None
        if finding.verdict is Verdict.NO:
            return Finding(Verdict.NO, finding.reason, "; ".join((*methods, origin)))
        if finding.verdict is Verdict.OPEN and open_ is None:
            open_ = finding
    method = "; ".join((*methods, origin))
    if open_ is not None:
        return Finding(Verdict.OPEN, open_.reason, method)
    return Finding(Verdict.YES, f"the divergence is at most delta for {proved}.", method)
