"""A good little mechanism, and copies of it that are broken in one place each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace as changed
from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq

from shuffledp._core.validation import Array, Bytes, Floats
from shuffledp.mechanisms.base import (
    Category,
    Encoding,
    HidingPair,
    InputDomain,
    ListedOtherUsers,
    Mechanism,
    OptionCountEstimator,
    OtherUsers,
    OutputTable,
    RandomSource,
    TwoLevelLaw,
    TwoLevelResponse,
    WholeNumberEncoding,
    exact_pair,
)
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.testing.mechanism_checks import INPUT_CHECKS


@dataclass(frozen=True)
class Good(Mechanism):
    """Randomized response on a few options, from parts."""

    epsilon: float = 1.0
    options: int = 3

    name = "good"
    task = "frequency"
    summary = "the true option, or one drawn uniformly"

    @property
    def who(self) -> str:
        return type(self).__name__

    @property
    def region(self) -> TwoLevelResponse:
        return TwoLevelResponse(self.who, self.epsilon, Fraction(1, self.options))

    @property
    def domain(self) -> InputDomain:
        return Category(self.who, self.options)

    @property
    def law(self) -> TwoLevelLaw:
        coin = (self.region.outside_density / 2, self.region.inside_density / 2) if self.options == 2 else None
        law = TwoLevelLaw.from_disjoint(self.region, attacked=[self.worst_dataset], tight=True)
        return changed(law, binary_extremes=coin)

    @property
    def worst_dataset(self) -> HidingPair:
        """All others hold a third option, where there is one."""
        own, other = self.region.inside_density / self.options, self.region.outside_density / self.options
        return self.region.disjoint_attack((other, other, 1 - 2 * other) if self.options > 2 else (own, other, 0 * own))

    @property
    def encoding(self) -> Encoding:
        return WholeNumberEncoding(self.who, self.options)

    @property
    def estimator(self) -> OptionCountEstimator:
        own, other = self.region.inside_density / self.options, self.region.outside_density / self.options
        return OptionCountEstimator(self.options, own, other, uniform_share=self.region.uniform_share)

    def randomize(self, values: Array, source: RandomSource) -> Array:
        by_chance = source.coins(self.region.uniform_share, len(values))
        return np.where(by_chance, source.integers_below(self.options, len(values)), values)

    def table(self) -> OutputTable:
        every, own, other = np.arange(self.options), self.region.inside_density, self.region.outside_density
        rows = [[(own if y == x else other) / self.options for y in every] for x in every]
        return OutputTable(every, every, tuple(map(tuple, rows)))

    @classmethod
    def examples(cls) -> Sequence[Good]:
        return [cls(), cls(2.0, 2)]


class TooHonest(Good):
    """The law says one thing, the sampler does another: it sends the true option more often."""

    def randomize(self, values: Array, source: RandomSource) -> Array:
        share = Fraction(int(self.region.uniform_share * 2**64 * 9 / 10), 2**64)
        by_chance = source.coins(share, len(values))
        return np.where(by_chance, source.integers_below(self.options, len(values)), values)


class SendsUnknownMessage(Good):
    """Sends a message that its table does not know."""

    @property
    def encoding(self) -> Encoding:
        return WholeNumberEncoding(self.who, 256)

    @property
    def estimator(self) -> OptionCountEstimator:
        return CountsUnknownMessage(**vars(super().estimator))

    def randomize(self, values: Array, source: RandomSource) -> Array:
        messages = super().randomize(values, source)
        return np.where(np.arange(len(values)) % 4000 == 3999, 200, messages)


class CountsUnknownMessage(OptionCountEstimator):
    def accumulate(self, messages: Array) -> Array:
        return super().accumulate(messages)[: self.options]


class SmallVariation(Good):
    """β, and with it the blanket's pair, is too small."""

    @property
    def law(self) -> TwoLevelLaw:
        return changed(super().law, exclusive_share=Fraction(1, 6), attack_pairs=())


class LooseBeta(Good):
    """Says that it is tight, and is not."""

    @property
    def region(self) -> TwoLevelResponse:
        return super().region

    @property
    def law(self) -> TwoLevelLaw:
        looser = TwoLevelResponse(self.who, self.epsilon + 0.5, Fraction(1, self.options))
        return TwoLevelLaw.from_disjoint(looser, tight=True)


class EasyAttack(Good):
    """Says that it is tight, and lets the others of its attack hold what hides best."""

    @property
    def worst_dataset(self) -> HidingPair:
        return self.region.disjoint_attack()


class RightButForQ(TwoLevelLaw):
    def variation_ratio(self) -> VariationRatio:
        right = super().variation_ratio()
        return VariationRatio(right.p, right.beta, q=1.5)


class SmallBlanket(TwoLevelLaw):
    def blankets(self) -> Sequence[HidingPair]:
        return [self.response.blanket_pair(self.exclusive_share / 2)]


class DoesNotCover(Good):
    """Its blankets are those of inputs that are easier to hide."""

    @property
    def law(self) -> TwoLevelLaw:
        return SmallBlanket(**vars(super().law))


class SmallQ(Good):
    """q is too small: others hide less than it says."""

    @property
    def law(self) -> TwoLevelLaw:
        return RightButForQ(**vars(super().law))


class OnlyTheTwo(TwoLevelLaw):
    def other_users(self) -> Sequence[OtherUsers]:
        (right,) = super().other_users()
        return [ListedOtherUsers(right.gamma, symmetric=True, listed_pairs=right.user_pairs[:2])]


class ForgetsAThird(Good):
    """As if all others held one of the two options that are told apart."""

    @property
    def law(self) -> TwoLevelLaw:
        return OnlyTheTwo(**vars(super().law))


class Everything(TwoLevelLaw):
    def other_users(self) -> Sequence[OtherUsers]:
        (right,) = super().other_users()
        return [ListedOtherUsers(1.0, symmetric=True, listed_pairs=right.user_pairs)]


class AllInCommon(Good):
    """As if all inputs had one law."""

    @property
    def law(self) -> TwoLevelLaw:
        return Everything(**vars(super().law))


class TooLikely(Good):
    """The uniform share is below what ε needs."""

    @property
    def region(self) -> TwoLevelResponse:
        return TwoLevelResponse(self.who, self.epsilon, Fraction(1, self.options), exact_uniform_share=Fraction(1, 2))


class NotNormalised(Good):
    """A row of the table has a hair too much."""

    def table(self) -> OutputTable:
        table = super().table()
        (first, *rest), *others = table.probabilities
        return changed(table, probabilities=((first + Fraction(1, 2**80), *rest), *others))


class OverstatedAttack(Good):
    """Claims an attack that no dataset allows: others who hide less than anybody does."""

    @property
    def law(self) -> TwoLevelLaw:
        none, some = fmpq(0), fmpq(1, 10)
        pair = exact_pair([(fmpq(1), none, some), (none, fmpq(1), some), (none, none, 1 - 2 * some)], symmetric=True)
        return changed(super().law, attack_pairs=(pair,))


class WrongCoin(Good):
    """Two messages, and a coin that is not theirs."""

    @property
    def law(self) -> TwoLevelLaw:
        return changed(super().law, binary_extremes=(Fraction(2, 5), Fraction(3, 5)))


class Biased(Good):
    """Reads messages as if the own option were less likely."""

    @property
    def estimator(self) -> OptionCountEstimator:
        right = super().estimator
        return changed(right, true_support=right.true_support * Fraction(9, 10))


class StatedVariance(OptionCountEstimator):
    def variance(self, values: Array) -> Floats:
        return super().variance(values) / 2


class WrongVariance(Good):
    """States half of its variance."""

    @property
    def estimator(self) -> OptionCountEstimator:
        return StatedVariance(**vars(super().estimator))


class Averages(OptionCountEstimator):
    def accumulate(self, messages: Array) -> Array:
        return super().accumulate(messages) / len(messages)

    def finish(self, total: Array, users: int) -> Any:
        return super().finish(total * users, users)


class OvercountsInvalid(OptionCountEstimator):
    def accumulate(self, messages: Array) -> Array:
        counts = np.bincount(messages, minlength=self.options + 1)
        return np.asarray(counts[: self.options] + 100 * counts[self.options])


class OvercountsInvalidMessage(Good):
    """Takes a message that no honest user sends for a hundred of each option."""

    @property
    def encoding(self) -> Encoding:
        return WholeNumberEncoding(self.who, self.options + 1)

    @property
    def estimator(self) -> OptionCountEstimator:
        return OvercountsInvalid(**vars(super().estimator))


class DoesNotAddUp(Good):
    """Its statistic is an average."""

    @property
    def estimator(self) -> OptionCountEstimator:
        return Averages(**vars(super().estimator))


@dataclass(frozen=True)
class DropsLastBit(WholeNumberEncoding):
    def pack(self, messages: Array) -> Bytes:
        return super().pack(messages) & np.uint8(254)


class ShortWire(Good):
    """Its wire drops the last bit."""

    @property
    def encoding(self) -> Encoding:
        return DropsLastBit(self.who, self.options)


@dataclass(frozen=True)
class TakesAnything(WholeNumberEncoding):
    def check_rows(self, wire: Bytes) -> Bytes:  # type: ignore[misc]
        return np.asarray(wire)[:, -1:]


class OpenWire(Good):
    """Its wire takes bytes of any width."""

    @property
    def encoding(self) -> Encoding:
        return TakesAnything(self.who, self.options)


class WideWire(Good):
    """Says that a message has more bytes than it has."""

    @property
    def message_bits(self) -> int:
        return 12


class Truncates(InputDomain):
    def check(self, values: Any) -> Array:
        return np.asarray(values).astype(np.int64) % 3

    def audit_pair(self) -> Array:
        return np.array([0, 2])


class TakesEverything(Good):
    """Validates nothing."""

    @property
    def domain(self) -> InputDomain:
        return Truncates()


@dataclass(frozen=True)
class ChangesOption(Category):
    def check(self, values: Any) -> Array:
        return (super().check(values) + 1) % self.options


class ChangesValues(Good):
    """Checks a value into another one each time."""

    @property
    def domain(self) -> InputDomain:
        return ChangesOption(self.who, self.options)


class Nameless(Good):
    """Refuses by sentences that do not say who speaks."""

    @property
    def domain(self) -> InputDomain:
        return Category("somebody", self.options)


class FixedSeed(Good):
    """Draws from a seed of its own."""

    def randomize(self, values: Array, source: RandomSource) -> Array:
        del source
        rng = np.random.default_rng(len(values))
        by_chance = rng.random(len(values)) < float(self.region.uniform_share)
        return np.where(by_chance, rng.integers(0, self.options, len(values)), values)


class OwnRandomness(Good):
    """Draws from a generator of its own, whatever it is given."""

    def randomize(self, values: Array, source: RandomSource) -> Array:
        del source
        rng = np.random.default_rng()
        by_chance = rng.random(len(values)) < float(self.region.uniform_share)
        return np.where(by_chance, rng.integers(0, self.options, len(values)), values)


class ForgetsASetting(Good):
    """Built from its settings it is another one."""

    def settings(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon / 2}


class HoldsAFunction(Good):
    """Keeps something that cannot be sent to another process."""

    def attacks(self) -> Any:
        self.__dict__["remembered"] = lambda: None
        return super().attacks()


class RaisesInVariance(Good):
    """Cannot say its variance."""

    def variance(self, values: Any) -> Floats:
        raise RuntimeError("not yet written.")


REFUSAL_CHECKS = {check.name for check in INPUT_CHECKS} - {"the canonical form is stable"}
SOUNDNESS_CHECKS = {"no bound is below the real protocol", "every bound and attack holds for all datasets"}

BROKEN_MECHANISMS: list[tuple[Good, set[str], str]] = [
    (TooHonest(), {"the messages follow the table"}, "The messages do not follow the stated law: for input 0, χ² is "),
    (SendsUnknownMessage(), {"the messages follow the table"}, "input 0 sent 5 messages that are not in the table"),
    (
        SmallVariation(),
        {
            "the total variation is at most beta",
            "the blanket covers the worst pair",
            "the blankets cover mixtures",
            "every other user is covered",
            *SOUNDNESS_CHECKS,
        },
        "The total variation β of variation_ratio() is too small: inputs 0 and 1 have total variation 0.36",
    ),
    (LooseBeta(), {"some pair attains beta", "the blanket covers no more"}, "no pair of inputs attains β"),
    (
        SmallQ(),
        {"the others contain the decomposition", *SOUNDNESS_CHECKS},
        "for inputs 0 and 1 some other user's law is too small",
    ),
    (TooLikely(), {"the local guarantee holds exactly"}, "inputs 0 and 1 have the ratio e^1.38629436, above e^1"),
    (NotNormalised(), {"the output law is normalised"}, "the probabilities of input 0 sum to 1 and 8.27e-25"),
    (
        OverstatedAttack(),
        {"every bound and attack holds for all datasets"},
        "the attack claims δ ≥ 1, no dataset has more",
    ),
    (ForgetsAThird(), {"every other user is covered"}, "inputs 0 and 1 of those compared are not covered"),
    (AllInCommon(), {"the common part is common"}, "it is 1, and all rows have"),
    (
        WrongCoin(1.0, 2),
        {"the coin is that of the table", *SOUNDNESS_CHECKS},
        "neither message has these extreme probabilities",
    ),
    (WrongCoin(), {"the coin is that of the table", *SOUNDNESS_CHECKS}, "3 messages may be sent, not two"),
    (
        Biased(),
        {"the estimate is unbiased", "the estimate has the stated variance"},
        "The estimate is biased: with n = 1, on average over the exact law, it is off by 0.187927",
    ),
    (
        WrongVariance(),
        {"the estimate has the stated variance", "some options are read as in the whole"},
        "variance 1.84134719, stated is 0.920673594",
    ),
    (
        OvercountsInvalidMessage(),
        {"no report moves more than stated"},
        "a report adds 274.011035 to a number, stated is -0.581976707 to 2.16395341",
    ),
    (EasyAttack(), {"some attack tells the most"}, "law.tight is True, but attacks() leave a gap: the attacks attain"),
    (DoesNotAddUp(), {"batches add up"}, "Statistics of batches do not add up"),
    (
        ShortWire(),
        {"messages survive the wire", "the messages follow the table"},
        "1 of 3 messages arrive as other ones",
    ),
    (OpenWire(), {"another width is refused"}, "unpack() took a row of 2 bytes"),
    (WideWire(), {"rows have the stated width"}, "pack() of 3 messages gives shape (3, 1), not (3, 2)"),
    (TakesEverything(), REFUSAL_CHECKS, "encode([]) returned messages"),
    (Nameless(), REFUSAL_CHECKS, "does not begin with Nameless: 'somebody: expected at least one value, got none.'"),
    (
        ChangesValues(),
        {
            "some options are read as in the whole",
            "the canonical form is stable",
            "the messages follow the table",
            "the estimate is unbiased",
            "the estimate has the stated variance",
        },
        "check() changes values of the table's inputs that it gave itself",
    ),
    (FixedSeed(), {"the system source is the default"}, "512 users of one input sent the same messages twice"),
    (
        OwnRandomness(),
        {
            "the same seed gives the same messages",
            "the settings build the same mechanism",
            "it survives pickling",
        },
        "two encodings of the same 100 values differ",
    ),
    (
        ForgetsASetting(),
        {"the settings build the same mechanism"},
        "built from its settings, it is not equal to itself",
    ),
    (HoldsAFunction(), {"it survives pickling"}, "The mechanism does not survive pickling"),
    (
        RaisesInVariance(),
        {"some options are read as in the whole", "the estimate has the stated variance", "it survives pickling"},
        "the check was stopped by RuntimeError in broken_mechanisms.py, line ",
    ),
]
"""Each with the checks that must fail, no others, and words that must be in the list."""
