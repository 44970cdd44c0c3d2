"""What a randomizer answers to a bound: one abstract class, and small ones for what only some can.

A bound asks these questions, never for a class or a name. What is optional is a class that a randomizer names in its
bases, so that a misspelt ability is an error: at the definition of the class, or when the first object is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from flint import arb

from shuffledp.errors import NotApplicable

if TYPE_CHECKING:
    from shuffledp.privacy.cut_randomizer import CutRandomizer
    from shuffledp.privacy.mixed_others import MixedOthers
    from shuffledp.privacy.neighbours import Neighbours
    from shuffledp.privacy.others import Others
    from shuffledp.privacy.own_loss import OwnLoss
    from shuffledp.privacy.pair import HidingPair
    from shuffledp.privacy.variation_ratio import VariationRatio

ALIKE = 0.85
"""Names more alike than this are taken for one name, misspelt."""


class Randomizer(ABC):
    """Anything whose shuffled output has a privacy curve: a mechanism, or what is known of one."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        _demand_known_names(cls)

    @abstractmethod
    def variation_ratio(self) -> VariationRatio:
        """Its (p, β)-variation and q-ratio, upper bounds for every pair of inputs and every other user."""

    @abstractmethod
    def blankets(self) -> Sequence[HidingPair]:
        """For each kind of input pair that may be the worst one: its pair against the privacy blanket.

        The hiding law is the pointwise infimum of the output laws over all inputs, or a smaller law, then the revealed
        rest. Empty where only the parameters are known.
        """

    @abstractmethod
    def attacks(self) -> Sequence[HidingPair]:
        """The exact pairs of constructed datasets: ``hiding`` is the law of the others' messages; empty: none known.

        The others may all hold one value, or values drawn independently from any law: some dataset attains the average.
        """

    def derived_attacks(self) -> Callable[[], Sequence[HidingPair]] | None:
        """More of these, which take time to derive: called only when somebody asks; None where there are none."""
        return None

    @property
    def one_message_each(self) -> bool:
        """Whether every user sends one message, and these hide each other."""
        return True

    @property
    def why_no_attack(self) -> str:
        """Where ``attacks`` is empty: why, in half a sentence; empty where nobody says."""
        return ""

    def others(self) -> Sequence[Others]:
        """For each kind of input pair that may be the worst one: every law that another user's message may have.

        Empty where these are not known, or messages hide each other in another way than one from each user.
        """
        return ()

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        """Where there are only two messages: the least and the largest probability of one of them, over all inputs."""
        return None

    def hiding_messages(self, users: int) -> int:
        """How many messages of ``users`` honest users hide each other: one that depends on the value among them."""
        return users

    def attack_messages(self, users: int) -> int:
        """The same number in the datasets of ``attacks``."""
        return self.hiding_messages(users)

    def told_parameters(self) -> dict[str, float]:
        """p, β and q by name; nothing where no single message tells anything of the noise that hides a value."""
        try:
            return self.variation_ratio().describe()
        except NotApplicable:
            return {}

    @property
    def holds_for(self) -> str:
        """Which randomizers an answer is about, in words, where it is not one alone."""
        return ""

    @property
    def assumption(self) -> str:
        """What its privacy rests on besides mathematics, such as an unbroken cipher; empty where there is nothing."""
        return ""

    def premises(self) -> tuple[str, ...]:
        """What must be so, in sentences, beside what every randomizer needs whose messages are shuffled."""
        return (self.assumption,) if self.assumption else ()


class HasNoisyOthers(ABC):
    """Sends real messages that are noisy themselves, besides the messages that hide them."""

    @abstractmethod
    def noisy_others(self, messages: int) -> tuple[int, Fraction]:
        """Where ``messages`` hide each other: how many real messages others sent, and λ.

        λ is a chance with which each of them, whatever its value, is one more message with the law of what hides.
        """


class HasPublishedGuarantee(ABC):
    """Knows what its own paper promises."""

    published_theorem: ClassVar[str]

    @abstractmethod
    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """The printed ε at δ for this many messages that hide each other, or NotApplicable."""


class HasNeighbours(ABC):
    """A metric mechanism: near inputs are better protected than far ones, and it says how well."""

    @abstractmethod
    def between(self, first: Any, second: Any) -> Neighbours:
        """What is known of one pair of inputs."""

    @abstractmethod
    def within(self, diameter: float) -> Neighbours:
        """What holds for every two inputs at most this many input units apart."""


class HasOwnLoss(ABC):
    """Hides a value by noise that honest users, or the shuffler, add together: its law says what all messages tell."""

    @abstractmethod
    def own_loss(self, honest: int) -> OwnLoss:
        """The privacy loss of all messages where this many honest users take part, or NotApplicable."""


class HasParts(ABC):
    """Answers several questions by messages that say which question they answer, each hidden by a crowd of its own."""

    @abstractmethod
    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """What answers a question, and how many are answered so; a changed value may change every answer.

        Each part's randomness is its own, so that the guarantee is that of all parts composed.
        """


class HasTails(ABC):
    """May send what another input hardly ever sends, or never: a guarantee leaves out some of it, and adds it to δ."""

    @property
    @abstractmethod
    def has_tails(self) -> bool:
        """Whether leaving out some of it helps."""

    @abstractmethod
    def without_tails(self, share: float) -> CutRandomizer | None:
        """The same where at most a probability of ``share`` is left out, as much as helps; None where nothing does.

        ``share`` is a wish: where what is left out is given, it is that.
        """


class MayMix(ABC):
    """Sends messages that others, with other settings or another randomizer, may send too, and knows their laws."""

    @abstractmethod
    def why_apart(self, other: MayMix) -> str:
        """Why the messages of the two can be told apart, in half a sentence; empty where they cannot."""

    @abstractmethod
    def hidden_among(self, groups: Sequence[MayMix]) -> Sequence[MixedOthers]:
        """For each kind of input pair of this one that may be the worst: every law of a user of each of ``groups``.

        Empty where these are not known.
        """


class HasQuickForm(ABC):
    """Takes long to be looked at sharply, and has a simpler form that stands for it."""

    @abstractmethod
    def quick_form(self) -> Randomizer:
        """What slow bounds look at where a quick answer is asked for: every guarantee for it is one for this."""


ABILITIES: tuple[type, ...] = (
    *(HasNoisyOthers, HasPublishedGuarantee, HasNeighbours, HasOwnLoss, HasParts, HasTails, HasQuickForm),
    MayMix,
)


def _names_of(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def _demand_known_names(kind: type) -> None:
    """Refuse a class that offers an ability under a name that nobody asks for, or without saying so."""
    known = {name for base in (Randomizer, *ABILITIES) for name in _names_of(base)}
    for name in _names_of(kind) - known:
        meant = get_close_matches(name, known, n=1, cutoff=ALIKE)
        if meant:
            raise TypeError(f"{kind.__name__}: nobody asks a randomizer for {name!r}; is it {meant[0]!r}?")
    for ability in ABILITIES:
        offered = _names_of(kind) & _names_of(ability)
        if offered and not issubclass(kind, ability):
            one = sorted(offered)[0]
            raise TypeError(f"{kind.__name__}: it gives {one!r}, but does not name {ability.__name__} in its bases.")
