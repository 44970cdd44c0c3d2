"""Evidence of claims: how each kind is made from a randomizer, and compared with it before it is proved again."""

from __future__ import annotations

import dataclasses
import json
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from flint import fmpq
from shuffledp_verify import Finding, Verdict
from shuffledp_verify.arithmetic import Number, bracket_exponential, precision, rational
from shuffledp_verify.claim import (
    BOUNDS,
    COMPOSED_PARTS,
    EVIDENCE_CLASSES as READ_KINDS,
    EXACT_BINARY,
    MAX_CLASSES,
    MAX_USERS as MAX_USERS,
    OPTIMAL,
    RANDOM_BLANKET,
    WORST_DATASET,
    BinaryEvidence,
    BlanketEvidence,
    Evidence as ReadEvidence,
    FactsText,
    LawFamilyText,
    NoiseEvidence,
    NoiseText,
    PairEvidence,
    RandomBlanketEvidence,
    RoundEvidence,
    RoundsEvidence,
    WorstDatasetEvidence,
    format_parameters,
    read_mechanism,
    read_randomizer,
)
from shuffledp_verify.divergence import RandomBlanket
from shuffledp_verify.message_laws import (
    BALL_BITS,
    PROBABILITY_NAMES,
    ClassText,
    Law,
    LawText,
    PairKind,
    VariationRatioParameters,
    check_extreme_laws,
    check_number,
    compare_laws,
    distinct_laws,
    format_number,
    is_mirror_image,
    pair_law,
)
from shuffledp_verify.noise import Facts
from shuffledp_verify.proofs import (
    BinaryProof,
    BlanketProof,
    MessageCallback,
    NoiseProof,
    RandomBlanketProof,
    RoundProof,
    WorstDatasetProof,
    check_rounds,
    prove_rounds,
)
from shuffledp_verify.verdict import Refuted, TooManyCases
from shuffledp_verify.worst_dataset_bound import LawFamily

from shuffledp._core.errors import NotApplicable, ShuffledpError
from shuffledp.bounds.amplify import restrict_to_inputs
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.mechanisms import catalogue, plugins
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.mechanisms.table_and_density import FromTable
from shuffledp.privacy.aggregate_noise import AggregateNoiseLoss
from shuffledp.privacy.curve import NumericCurve
from shuffledp.privacy.dominating_pairs import HidingPair, OtherUsers
from shuffledp.privacy.input_pairs import Neighbours
from shuffledp.privacy.randomizer_interface import (
    HasAggregateLoss,
    HasNeighbours,
    HasNoisyMessages,
    HasParts,
    Randomizer,
)
from shuffledp.privacy.variation_ratio import VariationRatio

if TYPE_CHECKING:
    from shuffledp.certificates.claim import Claim


# --- Description of the randomizer ---


TEXT_BITS = 160


class MechanismMismatch(Exception):
    """The claim is about a class that is not the one known here by that name."""


# --- Writing ---


def describe_randomizer(randomizer: Randomizer) -> dict[str, Any]:
    """Returns a description of the randomizer that can be read back, or raises ValueError if there is none."""
    description = _build_description(randomizer)
    if "origin" in description:
        _check_same_law(randomizer, build_mechanism(description))
    return description


def _build_description(randomizer: Randomizer) -> dict[str, Any]:
    if isinstance(randomizer, VariationRatio):
        return {"parameters": format_parameters(randomizer.describe())}
    if type(randomizer) is FromTable:
        return {"table": randomizer.matrix.tolist()}
    if isinstance(randomizer, Mechanism):
        settings = randomizer.settings()
        description: dict[str, Any] = {"mechanism": randomizer.name}
        if "epsilon" in settings:
            description["epsilon"] = settings.pop("epsilon")
        description["settings"] = settings
        origin = plugins.origin(type(randomizer))
        if origin is not None:
            description["origin"] = origin
        try:
            is_json = json.loads(json.dumps(description)) == description
            if is_json and type(build_mechanism(description)) is type(randomizer):
                return description
        except (TypeError, ValueError):
            pass
    raise ValueError(f"certificate: expected a randomizer that can be written down, got {type(randomizer).__name__}.")


def format_classes(pair: HidingPair) -> tuple[ClassText, ...]:
    """Returns the classes of a pair, for the file."""
    with precision(TEXT_BITS):
        rows: Sequence[Sequence[Number]] = pair.classes() if pair.exact is None else pair.exact
        return tuple(dict(zip(PROBABILITY_NAMES, map(format_number, row), strict=True)) for row in rows)


def rebuild_classes(pair: HidingPair) -> Law:
    """Returns the classes that a mechanism states, at the working precision if they are not exact."""
    return [(c[0], c[1], c[2]) for c in (pair.classes() if pair.exact is None else pair.exact)]


def _check_same_law(randomizer: Randomizer, again: Randomizer) -> None:
    """Raises ValueError for a third-party mechanism that its settings do not rebuild: nobody could prove the claim."""
    pairs, rebuilt = randomizer.blankets(), again.blankets()
    same = randomizer.variation_ratio() == again.variation_ratio() and len(pairs) == len(rebuilt)
    if not same or any(format_classes(one) != format_classes(other) for one, other in zip(pairs, rebuilt, strict=True)):
        raise ValueError(
            f"certificate: built again from its settings, {type(randomizer).__name__} has another law; its settings() "
            f"must be what its constructor was given."
        )


def format_randomizer(description: Mapping[str, Any]) -> str:
    """Returns the randomizer on one line."""
    if "table" in description:
        rows = description["table"]
        return f"a table of {len(rows)} inputs and {len(rows[0])} messages"
    named = dict(description.get("parameters") or description["settings"])
    if "epsilon" in description:
        named = {"epsilon": description["epsilon"], **named}
    if "local" in description:
        named["local"] = description["local"]
    return (
        f"{description.get('mechanism', 'parameters')}: {', '.join(f'{name} = {text}' for name, text in named.items())}"
    )


# --- Reading ---


def read_description(value: Any) -> dict[str, Any]:
    """Checks the description in a file; a known mechanism determines whether it has a local ε."""
    if isinstance(value, dict) and "parameters" not in value and "table" not in value:
        kind = catalogue.find(str(value.get("mechanism")))
        if kind is not None:
            return read_mechanism(value, takes_epsilon=catalogue.takes_epsilon(kind))
    # For an unknown name, ``build_mechanism`` raises the error.
    return read_randomizer(value)


# --- Rebuilding ---


def build_mechanism(description: Mapping[str, Any]) -> Mechanism:
    """Returns the mechanism of a description, or raises ValueError."""
    if "table" in description:
        return FromTable(description["table"])
    name = description["mechanism"]
    kind = catalogue.find(name)
    if kind is None:
        names = ", ".join([*catalogue.all_mechanisms(), *plugins.plugin_names()])
        raise ValueError(f"certificate: mechanism must be one of {names}, got {name!r}.")
    known = {one.name for one in catalogue.settings_fields(kind)}
    for key in description["settings"]:
        if key not in known:
            raise ValueError(f"certificate: {name} has no setting {key!r}.")
    try:
        return catalogue.construct(kind, description.get("epsilon"), description["settings"])
    except TypeError as error:
        raise ValueError(f"certificate: {name}: {error}.") from None


def rebuild_mechanism(description: Mapping[str, Any]) -> tuple[Mechanism, str]:
    """Returns the mechanism of a claim, and a remark if it is not part of shuffledp.

    Raises MechanismMismatch if the class of that name here is not the claimed one.
    """
    mechanism = build_mechanism(description)
    here, claimed = plugins.origin(type(mechanism)), description.get("origin")
    if here == claimed:
        return mechanism, "" if here is None else f", both as stated by {here}, which is not of shuffledp"
    ours = "shuffledp"
    raise MechanismMismatch(
        f"the claim is about {description['mechanism']!r} of {claimed or ours}, "
        f"and the one of that name here is of {here or ours}."
    )


def count_hiding_messages(randomizer: Randomizer, users: int) -> int:
    """Returns the number of messages that hide each other, or raises ValueError if it is too large."""
    messages = randomizer.hiding_messages(users)
    if messages > MAX_USERS:
        raise ValueError(f"certificate: expected at most {MAX_USERS} messages that hide each other, got {messages}.")
    return messages


class MechanismEvidence(ReadEvidence):
    """Evidence that is compared with the mechanism; ``MechanismRoundEvidence`` is that of a claim of one round."""

    def summary_rows(self) -> list[tuple[str, str]]:
        """Returns the rows of the summary besides those of every claim."""
        return []

    @abstractmethod
    def theorem(self, claim: Claim) -> str:
        """Returns the theorem that a correct claim of this bound names."""

    @abstractmethod
    def prove_or_raise(self, claim: Claim, notice: MessageCallback) -> Finding:
        """Proves the claim again, or raises Refuted, MechanismMismatch or TooManyCases with the reason why not."""

    def prove(self, claim: Claim, notice: MessageCallback) -> Finding:
        """Proves the claim again, after its bound and theorem were checked."""
        try:
            return self.prove_or_raise(claim, notice)
        except Refuted as refuted:
            return Finding(Verdict.NO, str(refuted), "the law, rebuilt")
        except MechanismMismatch as mismatch:
            return Finding(Verdict.OPEN, str(mismatch), "whose law it is")
        except TooManyCases as excess:
            return Finding(Verdict.OPEN, str(excess), "how many laws there are")


class MechanismRoundEvidence(RoundEvidence, MechanismEvidence):
    """The evidence of one kind of claim of one round, made from a mechanism and compared with it.

    A kind is a frozen dataclass with the fields of its class in ``shuffledp_verify.claim``, listed in
    ``MECHANISM_EVIDENCE_CLASSES``. It defines

    - the bounds it serves (``serves``), and their ``theorem``;
    - how it is made from a randomizer (``from_randomizer``), and the description of that (``describe_randomizer``);
    - the relative amounts by which a value is raised, the least first (``epsilon_margins``, ``delta_margins``), and
      whether a claim is returned only once it is proved (``requires_proof``);
    - how the laws are rebuilt (``rebuild_proof``). Only the question is taken from the file: a difference from the
      file is refuted (``Refuted``), an unknown class or too large a law leaves the claim open (``MechanismMismatch``,
      ``TooManyCases``), and the proof is about the rebuilt laws. ``RoundProof.decide`` proves one round; claims of
      many rounds call it many times, so it caches everything that does not depend on (ε, δ).
    """

    epsilon_margins: ClassVar[tuple[Decimal, ...]]
    delta_margins: ClassVar[tuple[Decimal, ...]]
    requires_proof: ClassVar[bool] = False

    # --- Making ---

    @classmethod
    def serves(cls, randomizer: Randomizer, bound: str) -> bool:
        """Returns True if a claim of this bound is of this kind, unless it is of an earlier kind in the list."""
        return bound in cls.bounds

    @classmethod
    @abstractmethod
    def from_randomizer(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        """Returns the evidence of a claim of this bound, or raises ValueError if it has none."""

    @classmethod
    def describe_randomizer(cls, randomizer: Randomizer) -> dict[str, Any]:
        """Returns a description of the randomizer that can be read back."""
        return describe_randomizer(randomizer)

    @classmethod
    def margins(cls, delta: float | None) -> tuple[Decimal, ...]:
        """Returns the margins of ε if δ is given, else those of δ."""
        return cls.delta_margins if delta is None else cls.epsilon_margins

    def with_users(self, randomizer: Randomizer, users: int) -> Self:
        """Returns the same evidence with the numbers for another number of users."""
        return dataclasses.replace(self, messages=optional_message_count(randomizer, users))

    # --- Proving ---

    def theorem(self, claim: Claim) -> str:
        return BOUNDS_BY_NAME[claim.bound].theorem

    @abstractmethod
    def rebuild_proof(self, claim: Claim) -> RoundProof:
        """Returns the laws of the claim's randomizer, compared with the file."""

    def prove_or_raise(self, claim: Claim, notice: MessageCallback) -> Finding:
        return self.rebuild_proof(claim).decide(claim.users, Fraction(claim.epsilon), Fraction(claim.delta), notice)

    def check_messages(self, randomizer: Randomizer, users: int) -> None:
        """Refutes a number of messages that is not the randomizer's."""
        truth = count_hiding_messages(randomizer, users)
        if self.messages not in (None, truth):
            raise Refuted(f"messages is {self.messages} in the file and {truth} in truth.")

    def check_no_messages(self) -> None:
        """Refutes a number of messages for parameters, whose users send one message each."""
        if self.messages is not None:
            raise Refuted("parameters are those of one message of each user.")


def optional_message_count(randomizer: Randomizer, users: int) -> int | None:
    """Returns the number of messages that hide each other; None if it is one per user."""
    messages = count_hiding_messages(randomizer, users)
    return None if messages == users else messages


# --- Aggregate noise ---


@dataclass(frozen=True)
class MechanismNoiseEvidence(NoiseEvidence, MechanismRoundEvidence):
    """The law of the noise that hides a value, part by part."""

    epsilon_margins = (Decimal("2e-8"), Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-6"), Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"))
    requires_proof = True

    @classmethod
    def from_randomizer(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        return cls(_noise_texts(randomizer, users))

    def with_users(self, randomizer: Randomizer, users: int) -> Self:
        return replace(self, noises=_noise_texts(randomizer, users))

    def theorem(self, claim: Claim) -> str:
        """Returns the theorem of the noise, which the bound names."""
        try:
            mechanism, _ = rebuild_mechanism(claim.randomizer)
            loss = _losses(mechanism, claim.users)[0][0]
        except (MechanismMismatch, ValueError):
            # An unknown mechanism is reported where the noise is rebuilt.
            return claim.theorem
        general = BOUNDS_BY_NAME[claim.bound].theorem
        return f"{general}: {loss.theorem}" if claim.bound == COMPOSED_PARTS else loss.theorem

    def rebuild_proof(self, claim: Claim) -> NoiseProof:
        if "mechanism" not in claim.randomizer:
            raise Refuted(f"the bound {claim.bound!r} needs a protocol with noise of its own.")
        mechanism, remark = rebuild_mechanism(claim.randomizer)
        if isinstance(mechanism, HasParts) != (claim.bound == COMPOSED_PARTS):
            raise Refuted(f"the bound {claim.bound!r} is not one of {claim.randomizer['mechanism']}.")

        def noises(users: int) -> Sequence[tuple[Facts, int]]:
            return _noise_facts(mechanism, users)

        try:
            truth = _noise_texts(mechanism, claim.users)
        except ValueError as error:
            raise Refuted(str(error).removeprefix("certificate: ")) from None
        if len(truth) != len(self.noises):
            raise Refuted(f"there are {len(self.noises)} noises in the file and {len(truth)} in truth.")
        for number, (claimed, rebuilt) in enumerate(zip(self.noises, truth, strict=True), 1):
            _check_same(f"noise {number}: ", claimed.to_document(), rebuilt.to_document())
        return NoiseProof(noises, f"numbers of the noise from the mechanism{remark}")


def _losses(randomizer: Randomizer, users: int) -> list[tuple[AggregateNoiseLoss, int]]:
    """Returns the loss of each part with its multiplicity, or raises ValueError if it is not known."""
    parts = randomizer.parts() if isinstance(randomizer, HasParts) else [(randomizer, 1)]
    losses = []
    for part, times in parts:
        if not isinstance(part, HasAggregateLoss):
            raise ValueError(
                f"certificate: a second proof needs aggregate noise in each part, and {type(part).__name__} has none."
            )
        try:
            losses.append((part.aggregate_loss(count_hiding_messages(part, users)), times))
        except NotApplicable as error:
            raise ValueError(f"certificate: {error.reason}") from None
    return losses


def _noise_facts(randomizer: Randomizer, users: int) -> list[tuple[Facts, int]]:
    """Returns the facts of each part's noise, or raises ValueError if one has no second proof."""
    result: list[tuple[Facts, int]] = []
    for loss, times in _losses(randomizer, users):
        facts = loss.noise_facts()
        if facts is None:
            raise ValueError(f"certificate: no second proof is known of what {loss.theorem} says.")
        result.append((facts, times))
    return result


def _noise_texts(randomizer: Randomizer, users: int) -> tuple[NoiseText, ...]:
    return tuple(NoiseText(_format_facts(facts), times) for facts, times in _noise_facts(randomizer, users))


# --- Texts ---


def _format_facts(facts: Facts) -> FactsText:
    return {name: _format_facts(fact) if isinstance(fact, Mapping) else str(fact) for name, fact in facts.items()}


def _check_same(label: str, claimed: Mapping[str, Any], truth: Mapping[str, Any]) -> None:
    """Refutes the claim at the first difference."""
    for name in (*truth, *claimed):
        if name not in claimed or name not in truth:
            raise Refuted(f"{label}{name} is only in {'truth' if name in truth else 'the file'}.")
        if isinstance(truth[name], Mapping) and isinstance(claimed[name], Mapping):
            _check_same(label, claimed[name], truth[name])
        elif claimed[name] != truth[name]:
            raise Refuted(f"{label}{name} is {claimed[name]} in the file and {truth[name]} in truth.")


# --- Blankets and parameters ---


MAX_MESSAGE_BITS = 8
MAX_ITEMS = 6
"""A table of exponentially many inputs is enumerated only if every setting is at most this."""
MAX_CELLS_OF_PAIRS = 5_000_000


@dataclass(frozen=True)
class MechanismBlanketEvidence(BlanketEvidence, MechanismRoundEvidence):
    """The law of each direction of the divergence that may differ."""

    # Over such a step of ε the divergence falls by far more than 2e-8 of itself.
    epsilon_margins = (Decimal("2e-8"),)
    delta_margins = (Decimal("1e-6"),)

    @classmethod
    def from_randomizer(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        return cls(format_laws(randomizer, users, bound, epsilon), messages=optional_message_count(randomizer, users))

    def rebuild_proof(self, claim: Claim) -> BlanketProof:
        description = claim.randomizer
        if "parameters" in description:
            if claim.bound == OPTIMAL:
                raise Refuted(f"the bound {OPTIMAL!r} needs a randomizer, not parameters.")
            self.check_no_messages()
            parameters = VariationRatioParameters.from_description(description["parameters"]).for_bound(claim.bound)
            compare_laws("direction", self.law, parameters.laws(exponential_upper_bound(claim)))
            return BlanketProof(parameters.laws, int, "law from the parameters")
        mechanism, remark = rebuild_mechanism(description)
        self.check_messages(mechanism, claim.users)
        kinds = enumerate_pair_kinds(mechanism)
        checked = "law from the mechanism" if kinds is None else "law checked against the table of all its messages"
        return build_blanket_proof(mechanism, claim, self.law, checked + remark, kinds or ())


def format_laws(randomizer: Randomizer, users: int, bound: str, epsilon: float) -> LawText:
    """Returns the law of each direction that a bound of one law uses, for the file."""
    curve = BOUNDS_BY_NAME[bound].curve(randomizer, count_hiding_messages(randomizer, users))
    assert isinstance(curve, NumericCurve)
    return tuple(format_classes(direction(epsilon)) for direction in curve.directions)


def build_blanket_proof(
    subject: Randomizer, claim: Claim, law: LawText, origin: str, kinds: Sequence[PairKind] = ()
) -> BlanketProof:
    """Returns the proof of the laws that a randomizer states, compared with those of the claim.

    If all kinds of pairs of its table are known, they decide.
    """

    def messages(users: int) -> int:
        return count_hiding_messages(subject, users)

    if claim.bound == OPTIMAL:
        blankets = blanket_laws(subject)
        compare_laws("direction", law, blankets)
        every = distinct_laws([*blankets, *map(pair_law, kinds)])
        return BlanketProof(lambda above: every, messages, origin)
    parameters = VariationRatioParameters.from_description(subject.variation_ratio().describe()).for_bound(claim.bound)
    for kind in kinds:
        parameters.check(kind)
    compare_laws("direction", law, parameters.laws(exponential_upper_bound(claim)))
    return BlanketProof(parameters.laws, messages, origin)


def exponential_upper_bound(claim: Claim) -> fmpq:
    """Returns a rational just above e^ε of a claim."""
    return bracket_exponential(Fraction(claim.epsilon))[1]


def enumerate_pair_kinds(mechanism: Mechanism) -> list[PairKind] | None:
    """Returns every ordered pair of inputs, each kind once; None if the table is too large to enumerate."""
    if mechanism.message_bits > MAX_MESSAGE_BITS:
        return None
    sizes = [size for size in mechanism.settings().values() if isinstance(size, int)]
    if mechanism.domain.is_combinatorial and max(sizes, default=math.inf) > MAX_ITEMS:
        return None
    try:
        table = mechanism.hiding_table()
    except (ValueError, ShuffledpError):
        return None
    rows = table.rows
    if len(rows) ** 2 * len(rows[0]) > MAX_CELLS_OF_PAIRS:
        return None
    # Small whole numbers in place of fractions make the many comparisons cheap.
    numbers = sorted({number for row in (*rows, table.blanket) for number in row})
    place = {number: index for index, number in enumerate(numbers)}
    short = [[place[number] for number in row] for row in rows]
    least = [place[number] for number in table.blanket]
    kinds = {
        frozenset(Counter(zip(first, second, least, strict=True)).items()): None
        for i, first in enumerate(short)
        for j, second in enumerate(short)
        if i != j
    }
    return [tuple(((numbers[a], numbers[b], numbers[h]), count) for (a, b, h), count in sorted(kind)) for kind in kinds]


def blanket_laws(randomizer: Randomizer) -> list[Law]:
    """Returns the randomizer's blankets, each in every direction that may differ."""
    result: list[Law] = []
    with precision(BALL_BITS):
        for pair in randomizer.blankets():
            for direction in (pair,) if pair.symmetric else (pair, pair.swapped()):
                result.append(rebuild_classes(direction))
    return result


# --- Chosen inputs of a metric mechanism ---


PAIR, DIAMETER = "pair", "diameter"


@dataclass(frozen=True)
class ChosenInputs(Neighbours):
    """The privacy of chosen inputs, with the choice: ``pair`` or ``diameter``."""

    inputs: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def from_mechanism(cls, mechanism: Randomizer, pair: Any, diameter: float | None) -> ChosenInputs:
        """Chooses the inputs as ``amplify`` does."""
        neighbours = restrict_to_inputs(mechanism, pair, diameter)
        assert isinstance(neighbours, Neighbours)
        inputs = (DIAMETER, float(diameter)) if diameter is not None else (PAIR, tuple(map(_to_json_input, pair)))
        return cls(neighbours.parameters, neighbours.blanket_pairs, neighbours.attack_pairs, mechanism, (inputs,))


@dataclass(frozen=True)
class MechanismPairEvidence(PairEvidence, MechanismRoundEvidence):
    """The law of each direction, as for all inputs, and the choice of inputs."""

    epsilon_margins = (Decimal("2e-8"), Decimal("2e-5"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-6"), Decimal("1e-3"), Decimal("1e-1"))
    requires_proof = True

    @classmethod
    def serves(cls, randomizer: Randomizer, bound: str) -> bool:
        return isinstance(randomizer, ChosenInputs) and bound in cls.bounds

    @classmethod
    def from_randomizer(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        assert isinstance(randomizer, ChosenInputs)
        law = format_laws(randomizer, users, bound, epsilon)
        return cls(dict(randomizer.inputs), law, messages=optional_message_count(randomizer, users))

    @classmethod
    def describe_randomizer(cls, randomizer: Randomizer) -> dict[str, Any]:
        assert isinstance(randomizer, ChosenInputs)
        assert randomizer.mechanism is not None
        return describe_randomizer(randomizer.mechanism)

    def rebuild_proof(self, claim: Claim) -> RoundProof:
        if "mechanism" not in claim.randomizer:
            raise Refuted("inputs are those of a mechanism, and none is named.")
        mechanism, remark = rebuild_mechanism(claim.randomizer)
        if not isinstance(mechanism, HasNeighbours):
            raise Refuted(f"{claim.randomizer['mechanism']} says nothing of chosen inputs.")
        try:
            subject = restrict_to_inputs(mechanism, self.inputs.get(PAIR), self.inputs.get(DIAMETER))
        except (TypeError, ValueError) as error:
            raise Refuted(f"the inputs are not the mechanism's: {error}") from None
        self.check_messages(subject, claim.users)
        return build_blanket_proof(subject, claim, self.law, f"law of these inputs from the mechanism{remark}")


def _to_json_input(value: Any) -> Any:
    """Returns an input as JSON represents it: a whole number, a float, or a list of floats."""
    if isinstance(value, bool | str):
        raise ValueError(f"certificate: an input must be a number or a list of them, got {type(value).__name__}.")
    try:
        return int(value) if float(value).is_integer() and not isinstance(value, float) else float(value)
    except TypeError:
        return tuple(float(each) for each in value)


# --- Bound ``exact-binary``: two messages, every dataset of coins between two extreme ones ---


@dataclass(frozen=True)
class MechanismBinaryEvidence(BinaryEvidence, MechanismRoundEvidence):
    """The least and the largest probability of one of the two messages, over all inputs."""

    epsilon_margins = (Decimal("1e-6"), Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-4"), Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"))
    requires_proof = True

    @classmethod
    def from_randomizer(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        messages = optional_message_count(randomizer, users)
        coin = randomizer.coin_range()
        if coin is None:
            raise ValueError(f"certificate: {EXACT_BINARY} needs a randomizer with two messages.")
        return cls(*map(str, coin), messages=messages)

    def rebuild_proof(self, claim: Claim) -> BinaryProof:
        if "parameters" in claim.randomizer:
            raise Refuted(f"the bound {EXACT_BINARY!r} needs a randomizer, not parameters.")
        mechanism, remark = rebuild_mechanism(claim.randomizer)
        coin = mechanism.coin_range()
        if coin is None:
            raise Refuted("the randomizer has more than two messages.")
        for name, claimed, truth in (("least", self.least, coin[0]), ("most", self.most, coin[1])):
            if claimed != str(truth):
                raise Refuted(f"coin: {name} is {claimed} in the file and {truth} in truth.")
        self.check_messages(mechanism, claim.users)
        checked = _check_coin_range(mechanism, *coin)
        return BinaryProof(*coin, lambda users: count_hiding_messages(mechanism, users), f"coins {checked}{remark}")


def _check_coin_range(mechanism: Mechanism, least: Fraction, most: Fraction) -> str:
    """Refutes probabilities that the table of messages contradicts; returns their origin in description."""
    try:
        rows = mechanism.hiding_table().rows
    except (ValueError, ShuffledpError):
        return "from the mechanism"
    if any(len(row) != 2 for row in rows):
        raise Refuted("the table of the randomizer has more than two messages.")
    first = min(row[0] for row in rows), max(row[0] for row in rows)
    if (least, most) not in (first, (1 - first[1], 1 - first[0])):
        raise Refuted("the table of the randomizer has other coins.")
    return "checked against the table of all its messages"


# --- Bound ``all-crowds``: every law of another user, and the worst dataset ---


@dataclass(frozen=True)
class MechanismWorstDatasetEvidence(WorstDatasetEvidence, MechanismRoundEvidence):
    """Every law of another user's message, for each direction of the divergence that may differ."""

    # The two proofs smooth and truncate differently.
    epsilon_margins = (Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"))
    delta_margins = (Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"))
    requires_proof = True

    @classmethod
    def from_randomizer(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        messages = optional_message_count(randomizer, users)
        families: list[LawFamilyText] = []
        count = 0
        for one in randomizer.other_users():
            for direction in (one,) if one.symmetric else (one, one.swapped()):
                kinds = tuple(format_classes(kind) for kind in direction.user_pairs)
                count += sum(map(len, kinds))
                if count > MAX_CLASSES:
                    raise ValueError(f"certificate: expected at most {MAX_CLASSES} classes of messages, got more.")
                families.append(LawFamilyText(format_number(rational(direction.gamma)), kinds))
        return cls(tuple(families), messages=messages)

    @classmethod
    def describe_randomizer(cls, randomizer: Randomizer) -> dict[str, Any]:
        both_ways = {"local": True} if isinstance(randomizer, VariationRatio) else {}
        return super().describe_randomizer(randomizer) | both_ways

    def rebuild_proof(self, claim: Claim) -> WorstDatasetProof:
        if "parameters" not in claim.randomizer:
            mechanism, remark = rebuild_mechanism(claim.randomizer)
            self.check_messages(mechanism, claim.users)
            families = self._rebuild_families(mechanism.other_users())
            origin = f"laws of all others from the mechanism{remark}"
            return WorstDatasetProof(families, lambda users: count_hiding_messages(mechanism, users), origin)
        if "local" not in claim.randomizer:
            raise Refuted(f"the bound {WORST_DATASET!r} needs ratios that hold both ways (local).")
        self.check_no_messages()
        parameters = claim.randomizer["parameters"]
        VariationRatioParameters.from_description(parameters)
        named = {name: float(number) for name, number in parameters.items()}
        q_pair = named["q0"], named["q1"]
        ratios = VariationRatio(named["p"], named["beta"], q_pair, q_common=named["q_common"], local=True)
        families = self._rebuild_families(ratios.other_users())
        if not (ratios.is_beta_maximal and q_pair == (ratios.p, ratios.p)):
            return WorstDatasetProof(
                families, int, "laws of all others from the parameters, as VariationRatio states them"
            )
        check_extreme_laws(families[0], rational(ratios.p))
        return WorstDatasetProof(families, int, "laws of all others from the parameters, all extreme ones of a local ε")

    def _rebuild_families(self, others: Sequence[OtherUsers]) -> list[LawFamily]:
        """Returns the rebuilt families of the file, and the missing direction of one wrongly declared symmetric."""
        families: list[LawFamily] = []
        mirrored: list[LawFamily] = []
        count = 0
        with precision(BALL_BITS):
            for one in others:
                for direction in (one,) if one.symmetric else (one, one.swapped()):
                    kinds = tuple(tuple(rebuild_classes(kind)) for kind in direction.user_pairs)
                    count += sum(map(len, kinds))
                    if count > MAX_CLASSES:
                        raise TooManyCases(f"there are more than {MAX_CLASSES} classes of messages.")
                    families.append(LawFamily(rational(direction.gamma), kinds))
                if one.symmetric and not is_mirror_image(families[-1].kinds, families[-1].kinds):
                    swapped = tuple(tuple(rebuild_classes(kind.swapped())) for kind in one.user_pairs)
                    mirrored.append(LawFamily(families[-1].gamma, swapped))
        if not families or len(self.families) != len(families):
            raise Refuted(f"crowds has {len(self.families)} directions in the file and {len(families)} in truth.")
        for number, (text, family) in enumerate(zip(self.families, families, strict=True), 1):
            before = f"direction {number}: "
            check_number(f"{before}gamma", text.gamma, family.gamma)
            compare_laws("kind", text.kinds, family.kinds, before)
        return [*families, *mirrored]


# --- Bound ``noisy-crowd``: dummies, and other users' real messages as far as they certainly hide ---


@dataclass(frozen=True)
class MechanismRandomBlanketEvidence(RandomBlanketEvidence, MechanismRoundEvidence):
    """The hiding law, and the number of others' messages that have it with a given probability."""

    epsilon_margins = (Decimal("2e-5"), Decimal("1e-4"), Decimal("1e-3"), Decimal("1e-2"))
    delta_margins = (Decimal("1e-3"), Decimal("1e-2"), Decimal("1e-1"), Decimal("1"))
    requires_proof = True

    @classmethod
    def from_randomizer(cls, randomizer: Randomizer, users: int, bound: str, epsilon: float) -> Self:
        if not isinstance(randomizer, HasNoisyMessages):
            raise ValueError(f"certificate: {RANDOM_BLANKET} needs real messages that are noisy, besides dummies.")
        others, chance = randomizer.count_noisy_messages(count_hiding_messages(randomizer, users))
        law = format_laws(randomizer, users, OPTIMAL, epsilon)
        return cls(law, others, str(chance), messages=optional_message_count(randomizer, users))

    def with_users(self, randomizer: Randomizer, users: int) -> Self:
        assert isinstance(randomizer, HasNoisyMessages)
        others, chance = randomizer.count_noisy_messages(count_hiding_messages(randomizer, users))
        return replace(self, others=others, chance=str(chance), messages=optional_message_count(randomizer, users))

    def rebuild_proof(self, claim: Claim) -> RandomBlanketProof:
        if "parameters" in claim.randomizer:
            raise Refuted(f"the bound {RANDOM_BLANKET!r} needs a randomizer, not parameters.")
        mechanism, remark = rebuild_mechanism(claim.randomizer)
        if not isinstance(mechanism, HasNoisyMessages):
            raise Refuted("the randomizer has no noise besides dummies.")

        def blanket(users: int) -> RandomBlanket:
            messages = count_hiding_messages(mechanism, users)
            return RandomBlanket(messages, *mechanism.count_noisy_messages(messages))

        laws, hiding = blanket_laws(mechanism), blanket(claim.users)
        compare_laws("direction", self.law, laws)
        for name, claimed, truth in (
            ("others", str(self.others), str(hiding.others)),
            ("chance", self.chance, str(hiding.chance)),
        ):
            if claimed != truth:
                raise Refuted(f"{name} is {claimed} in the file and {truth} in truth.")
        self.check_messages(mechanism, claim.users)
        return RandomBlanketProof(laws, blanket, f"law and chance from the mechanism{remark}")


# --- All kinds of evidence of one round ---


MECHANISM_EVIDENCE_CLASSES: tuple[type[MechanismRoundEvidence], ...] = (
    MechanismPairEvidence,
    MechanismNoiseEvidence,
    MechanismBinaryEvidence,
    MechanismRandomBlanketEvidence,
    MechanismWorstDatasetEvidence,
    MechanismBlanketEvidence,
)
"""In the order of ``shuffledp_verify.claim.EVIDENCE_CLASSES``, whose fields they have."""


def provable_bounds() -> tuple[str, ...]:
    """Returns the bounds that `verify` can prove: those of one law, then the others."""
    return BOUNDS


def find_evidence_class(randomizer: Randomizer, bound: str) -> type[MechanismRoundEvidence] | None:
    """Returns the kind of evidence of a claim of this bound; None if there is none."""
    return next((kind for kind in MECHANISM_EVIDENCE_CLASSES if kind.serves(randomizer, bound)), None)


def attach_round_mechanism(evidence: RoundEvidence) -> MechanismRoundEvidence:
    """Converts the evidence of a file to the kind that rebuilds laws from the mechanism."""
    kind = MECHANISM_EVIDENCE_CLASSES[READ_KINDS.index(type(evidence))]
    return kind(**{one.name: getattr(evidence, one.name) for one in dataclasses.fields(evidence)})


# --- Certificates of rounds and samples ---


@dataclass(frozen=True)
class MechanismRoundsEvidence(RoundsEvidence, MechanismEvidence):
    """Points of one round, the number of rounds and the sampling of each."""

    round_evidence: MechanismRoundEvidence
    """The law of one round, for the largest ε of a point."""
    evidence_by_size: Mapping[int, MechanismRoundEvidence] = dataclasses.field(default_factory=dict)
    """The same for other numbers of users, if some of its numbers depend on them."""

    def summary_rows(self) -> list[tuple[str, str]]:
        count = sum(len(size.points) for size in self.sizes)
        sampled = "" if self.plan.draw is None else "; samples by [VR] Proposition 2"
        return [("proof", f"{count} points of one round; rounds by [VR] Lemma 7.2{sampled}")]

    def theorem(self, claim: Claim) -> str:
        return self.round_evidence.theorem(self.single_round_claim(claim))

    def prove_or_raise(self, claim: Claim, notice: MessageCallback) -> Finding:
        check_rounds(claim, self)
        laws = self.round_evidence.rebuild_proof(self.single_round_claim(claim))
        self._check_numbers(claim)
        return prove_rounds(claim, self, laws, notice)

    def _check_numbers(self, claim: Claim) -> None:
        """Refutes numbers for other numbers of users that are not the mechanism's."""
        for users, claimed in self.evidence_by_size.items():
            if "parameters" in claim.randomizer:
                raise Refuted("parameters have no numbers that depend on the users.")
            mechanism, _ = rebuild_mechanism(claim.randomizer)
            if claimed != self.round_evidence.with_users(mechanism, users):
                raise Refuted(f"the numbers of {users} users are not those of the mechanism.")


def attach_mechanism(evidence: ReadEvidence) -> MechanismEvidence:
    """Converts the evidence of a file to the class that rebuilds laws from the mechanism."""
    if isinstance(evidence, RoundsEvidence):
        of_sizes = {users: attach_round_mechanism(one) for users, one in evidence.evidence_by_size.items()}
        return MechanismRoundsEvidence(
            evidence.plan, evidence.sizes, attach_round_mechanism(evidence.round_evidence), of_sizes
        )
    assert isinstance(evidence, RoundEvidence), "a claim is about one round or about several"
    return attach_round_mechanism(evidence)
