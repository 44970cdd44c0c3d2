"""The interface between randomizers and bounds: abstract randomizers, and small classes for optional capabilities.

A bound asks for these capabilities, never for a class or a name. A capability is a class that a randomizer lists among
its bases, so that a misspelt method is an error when the class is defined or its first object is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from flint import arb

from shuffledp._core.errors import NotApplicable

if TYPE_CHECKING:
    from shuffledp.privacy.aggregate_noise import AggregateNoiseLoss
    from shuffledp.privacy.dominating_pairs import HidingPair, MixedOtherUsers, OtherUsers
    from shuffledp.privacy.input_pairs import Neighbours
    from shuffledp.privacy.variation_ratio import VariationRatio

MISSPELLING_SIMILARITY = 0.85
"""Names more similar than this are taken for a misspelling of one another."""


class Randomizer(ABC):
    """Anything whose shuffled output has a privacy curve: a mechanism, or partial knowledge of one."""

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        _check_capability_names(cls)

    @abstractmethod
    def variation_ratio(self) -> VariationRatio:
        """Returns its (p, β)-variation and q-ratio, upper bounds for every pair of inputs and every other user."""

    @abstractmethod
    def blankets(self) -> Sequence[HidingPair]:
        """Returns the pair against the privacy blanket for each kind of input pair that may be the worst one.

        The hiding law is the pointwise infimum of the output laws over all inputs, or a smaller law, then the revealed
        rest. Empty if only the parameters are known.
        """

    @abstractmethod
    def attacks(self) -> Sequence[HidingPair]:
        """Returns the exact pairs of constructed datasets; empty if none are known.

        ``hiding`` is the law of the others' messages. The others may all hold one value, or values drawn independently
        from any law: some dataset attains the average.
        """

    def derived_attacks(self) -> Callable[[], Sequence[HidingPair]] | None:
        """Returns a function that derives more attacks, slowly, called only when needed; None if there are none."""
        return None

    @property
    def one_message_each(self) -> bool:
        """True if every user sends one message and these messages hide each other."""
        return True

    @property
    def missing_attack_reason(self) -> str:
        """The reason why ``attacks`` is empty, as a clause; empty if none is stated."""
        return ""

    def other_users(self) -> Sequence[OtherUsers]:
        """Returns every law of another user's message, for each kind of input pair that may be the worst one.

        Empty if these are not known, or if messages hide each other in another way than one from each user.
        """
        return ()

    def coin_range(self) -> tuple[Fraction, Fraction] | None:
        """Returns the range, over all inputs, of the probability of one of two messages; None if there are more."""
        return None

    def hiding_messages(self, users: int) -> int:
        """Returns the number of messages that hide each other, the one that depends on the value included.

        Args:
            users: Number of honest users.

        Returns:
            The number of messages.
        """
        return users

    def attack_messages(self, users: int) -> int:
        """Returns the number of messages that hide each other in the datasets of ``attacks``.

        Args:
            users: Number of honest users.

        Returns:
            The number of messages.
        """
        return self.hiding_messages(users)

    def ratio_parameters(self) -> dict[str, float]:
        """Returns p, β and q by name; empty if no ratios bound the laws of single messages."""
        try:
            return self.variation_ratio().describe()
        except NotApplicable:
            return {}

    @property
    def covered_randomizers(self) -> str:
        """Description of the randomizers that a result covers, if it is more than one."""
        return ""

    @property
    def assumption(self) -> str:
        """A condition besides mathematics that privacy rests on, such as an unbroken cipher; empty if there is none."""
        return ""

    def premises(self) -> tuple[str, ...]:
        """Returns its conditions, as sentences, besides those of every randomizer whose messages are shuffled."""
        return (self.assumption,) if self.assumption else ()


class HasNoisyMessages(ABC):
    """Sends real messages that are noisy themselves, besides the messages that hide them."""

    @abstractmethod
    def count_noisy_messages(self, messages: int) -> tuple[int, Fraction]:
        """Returns the number of real messages of others among ``messages`` that hide each other, and λ.

        λ is a probability with which each of them, whatever its value, is one more message with the hiding law.

        Args:
            messages: Number of messages that hide each other.
        """


class HasPublishedGuarantee(ABC):
    """States the guarantee of its own paper."""

    published_theorem: ClassVar[str]

    @abstractmethod
    def published_epsilon(self, messages: int, delta: arb) -> arb:
        """Returns the printed ε at δ.

        Args:
            messages: Number of messages that hide each other.
            delta: The δ.

        Raises:
            NotApplicable: If the printed analysis does not cover these settings.
        """


class HasNeighbours(ABC):
    """A metric mechanism: near inputs are better protected than far ones, by a stated amount."""

    @abstractmethod
    def neighbours_between(self, first: Any, second: Any) -> Neighbours:
        """Returns the privacy of one pair of inputs.

        Args:
            first: One input.
            second: Another input.
        """

    @abstractmethod
    def neighbours_within(self, diameter: float) -> Neighbours:
        """Returns the privacy of every two inputs that are close to each other.

        Args:
            diameter: Their largest distance, in input units.
        """


class HasAggregateLoss(ABC):
    """Hides values by noise that honest users add jointly, or the shuffler; its law gives the loss of all messages."""

    @abstractmethod
    def aggregate_loss(self, honest: int) -> AggregateNoiseLoss:
        """Returns the loss of all messages.

        Args:
            honest: Number of honest users.

        Raises:
            NotApplicable: If their noise has no analysed law.
        """


class HasParts(ABC):
    """Answers several questions by messages that name their question; messages of one question hide each other."""

    @abstractmethod
    def parts(self) -> Sequence[tuple[Randomizer, int]]:
        """Returns the randomizers that answer the questions, each with the number of questions it answers.

        A changed value may change every answer. The parts' randomness is independent, so the guarantee is that of all
        parts composed.
        """


class HasTails(ABC):
    """May send messages that another input hardly ever or never sends.

    Guarantees cut some of them off and add them to δ.
    """

    @property
    @abstractmethod
    def has_tails(self) -> bool:
        """True if cutting some of them off helps."""

    @abstractmethod
    def truncate_tails(self, share: float) -> TruncatedRandomizer | None:
        """Returns the randomizer with at most probability ``share`` cut off, as much as helps; None if nothing does.

        A mechanism that prescribes the cut ignores ``share``.

        Args:
            share: Probability that may be cut off.
        """


class HasMixedUsers(ABC):
    """Sends messages that others, with other settings or another randomizer, may also send, and knows their laws."""

    @abstractmethod
    def distinguishing_reason(self, other: HasMixedUsers) -> str:
        """Returns the reason why messages of the two can be distinguished, as a clause; empty if they cannot.

        Args:
            other: Sender of the other messages.
        """

    @abstractmethod
    def mixed_other_users(self, groups: Sequence[HasMixedUsers]) -> Sequence[MixedOtherUsers]:
        """Returns every law of a user of each of ``groups``, for each kind of own input pair that may be the worst.

        Empty if these are not known.

        Args:
            groups: The senders, one per group.
        """


class HasQuickForm(ABC):
    """Is slow to analyse sharply, and has a simpler form that stands for it."""

    @abstractmethod
    def quick_form(self) -> Randomizer:
        """Returns the form that slow bounds use for a quick answer: every guarantee for it also holds for this one."""


CAPABILITIES: tuple[type, ...] = (
    *(HasNoisyMessages, HasPublishedGuarantee, HasNeighbours, HasAggregateLoss, HasParts, HasTails, HasQuickForm),
    HasMixedUsers,
)


def _public_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def _check_capability_names(kind: type) -> None:
    """Raises TypeError for a class that offers a capability under an unknown name, or without listing it as a base."""
    known = {name for base in (Randomizer, *CAPABILITIES) for name in _public_names(base)}
    for name in _public_names(kind) - known:
        suggestions = get_close_matches(name, known, n=1, cutoff=MISSPELLING_SIMILARITY)
        if suggestions:
            raise TypeError(f"{kind.__name__}: {name!r} is no method of a randomizer; did you mean {suggestions[0]!r}?")
    for capability in CAPABILITIES:
        shared = _public_names(kind) & _public_names(capability)
        if shared and not issubclass(kind, capability):
            example = sorted(shared)[0]
            raise TypeError(
                f"{kind.__name__}: it defines {example!r}, but {capability.__name__} is not among its bases."
            )


class TruncatedRandomizer(Randomizer):
    """A randomizer where user 1's law, as the first of a pair, was cut: messages that hide too badly are left out.

    Theorem: with P ≤ P' + E and g = P − e^ε·Q ≤ g' + E, the total of (g ∗ others)_+ is at most that of (g' ∗ others)_+
    and the mass of E, whoever the others are. Every proof about g' that needs only sums and mixtures of signed measures
    holds as it does for g: the blanket and the absent user, but not reductions to parameters.
    """

    @abstractmethod
    def truncation_delta(self, epsilon: float) -> float:
        """Returns the amount that is added to δ at ε, rounded up; it does not fall with ε.

        Args:
            epsilon: The ε.
        """
