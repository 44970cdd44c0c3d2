"""The format of claim files: strict JSON with all fields present and of the right type, and a statement of the claim.

Nothing is computed here. A claim has the fields of every claim (``Claim``) and those of its kind of evidence, one
class each below; the kind is recognised by its fields. ``docs/certificates.md`` of shuffledp describes the format.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from shuffledp_verify.composition import Draw, RoundsComposition, SizePoints
from shuffledp_verify.message_laws import (
    MAX_FRACTION_DIGITS,
    PROBABILITY_NAMES,
    LawText,
    is_fraction_text,
    is_probability_text,
)

FORMAT = "shuffledp certificate"
FORMAT_VERSION = 1
SOFTWARE_NAMES = ("shuffledp", "python-flint", "numpy", "python")
PARAMETER_NAMES = ("p", "beta", "q0", "q1", "q_common")
MAX_EPSILON = 1000
MAX_USERS = 10**15
MAX_ROUNDS = 10**7
MAX_POINTS = 5_000
MAX_NOISE_MULTIPLICITY = 1 << 12
MAX_CLASSES = 20_000
"""Largest number of classes of messages for the bound ``all-crowds``."""
SECRECY_CONDITION = "holds only if nobody learns who was drawn"

OPTIMAL = "optimal"
WORST_DATASET = "all-crowds"
EXACT_BINARY = "exact-binary"
RANDOM_BLANKET = "noisy-crowd"
AGGREGATE_NOISE, COMPOSED_PARTS = "own-noise", "composed-parts"

THEOREMS = {
    OPTIMAL: "privacy blanket [PB], numerically exact [SCW25]",
    "variation-ratio": "sound variation-ratio reduction [VR §4, corrected]",
    "stronger-clone": "stronger clones [FMT23]",
    "clone": "clones [FMT21]",
    WORST_DATASET: "absent user: the worst of all crowds (ours)",
    RANDOM_BLANKET: "identity (★) with dummies and with the others' own noise",
    EXACT_BINARY: "worst dataset of two-message randomizers, by post-processing and bisection",
}
"""The theorem of each bound; the theorem of a noise depends on the noise and is not compared."""

CLAIM_FIELDS = (
    "format", "version", "statement", "epsilon", "delta", "users", "randomizer", "bound", "theorem", "guarantee",
    "rounding",
)  # fmt: skip
"""The fields of every claim; those of its evidence follow, and then the software."""

_RATE = re.compile(r"0\.\d{0,17}[1-9]")
_EXACT_FLOATS_NOTE = "every number here stands for the nearest 64-bit float, exactly"


# --- Fields ---


def malformed_error(sentence: str) -> ValueError:
    """Returns the error for a file that is not a certificate."""
    return ValueError(f"certificate: {sentence}.")


def read_object(name: str, value: Any, expected: Sequence[str]) -> dict[str, Any]:
    """Returns an object that has exactly these fields."""
    if not isinstance(value, dict):
        raise malformed_error(f"{name} must be an object")
    for key in expected:
        if key not in value:
            raise malformed_error(f"{name} lacks the field {key!r}")
    for key in value:
        if key not in expected:
            raise malformed_error(f"{name} has the unknown field {key!r}")
    return value


def read_list(name: str, value: Any) -> list[Any]:
    """Returns a non-empty list."""
    if not isinstance(value, list) or not value:
        raise malformed_error(f"{name} must be a list that is not empty")
    return value


def read_text(name: str, value: Any) -> str:
    """Returns a text."""
    if not isinstance(value, str):
        raise malformed_error(f"{name} must be a text")
    return value


def read_true(name: str, value: Any) -> bool:
    """Returns the value of an optional field that may only be true."""
    if value is not True:
        raise malformed_error(f"{name} must be true, or left out")
    return True


def read_integer(name: str, value: Any, least: int, most: int) -> int:
    """Returns an integer within limits."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise malformed_error(f"{name} must be a whole number from {least} to {most}")
    return value


def read_number(name: str, value: Any) -> float:
    """Returns a number, or infinity for the text "inf"."""
    if value == "inf":
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise malformed_error(f"{name} must be a number or 'inf'")
    try:
        return float(value)
    except OverflowError:
        raise malformed_error(f"{name} is too large") from None


def read_between(name: str, value: Any, most: int) -> float:
    """Returns a number from 0 to a limit."""
    found = read_number(name, value)
    if not 0 <= found <= most:
        raise malformed_error(f"{name} must be from 0 to {most}")
    return found


def read_probability(name: str, value: Any) -> str:
    """Returns the text of a probability: a fraction or a ball."""
    if not isinstance(value, str) or len(value) > MAX_FRACTION_DIGITS:
        raise malformed_error(f"{name} must be a text of at most {MAX_FRACTION_DIGITS} characters")
    if not is_probability_text(value):
        raise malformed_error(f"{name} must be a fraction 'a/b' or a ball '[mid +/- radius]', got {value[:40]!r}")
    return value


def read_fraction(name: str, value: Any) -> str:
    """Returns the text of a fraction."""
    if not is_fraction_text(value) or len(value) > MAX_FRACTION_DIGITS:
        raise malformed_error(f"{name} must be a text 'a/b' of at most {MAX_FRACTION_DIGITS} characters")
    return str(value)


def read_law(name: str, value: Any) -> LawText:
    """Returns lists of classes, after checking the format of each probability."""
    return tuple(
        tuple(
            {
                key: read_probability(f"{key} of a class", text)
                for key, text in read_object("a class", item, PROBABILITY_NAMES).items()
            }
            for item in read_list(f"a direction of {name}", direction)
        )
        for direction in read_list(name, value)
    )


# --- The randomizer ---


def read_randomizer(value: Any) -> dict[str, Any]:
    """Returns the description of a randomizer: parameters, a table, or the name and settings of a mechanism.

    Args:
        value: The field of the file.

    Returns:
        The same description, with numbers as floats.

    Raises:
        ValueError: If a field is missing, unknown or of the wrong type.
    """
    if not isinstance(value, dict):
        raise malformed_error("randomizer must be an object")
    if "parameters" in value:
        both_ways = {"local": read_true("local", value["local"])} if "local" in value else {}
        fields = read_object("randomizer", value, ("parameters", *both_ways))
        named = read_object("parameters", fields["parameters"], PARAMETER_NAMES)
        return {"parameters": format_parameters(named), **both_ways}
    if "table" in value:
        rows = read_list("table", read_object("randomizer", value, ("table",))["table"])
        return {"table": [[read_number("table", number) for number in read_list("table", row)] for row in rows]}
    return read_mechanism(value, takes_epsilon="epsilon" in value)


def read_mechanism(value: Mapping[str, Any], *, takes_epsilon: bool) -> dict[str, Any]:
    """Returns the name and settings of a mechanism with or without a local ε."""
    local = ("epsilon",) if takes_epsilon else ()
    origin = {"origin": read_text("origin", value["origin"])} if "origin" in value else {}
    fields = read_object("randomizer", value, ("mechanism", *local, "settings", *origin))
    if not isinstance(fields["settings"], dict):
        raise malformed_error("settings must be an object")
    settings = {name: _read_setting(name, number) for name, number in fields["settings"].items()}
    name = read_text("mechanism", fields["mechanism"])
    return {"mechanism": name, **{key: read_number(key, fields[key]) for key in local}, "settings": settings, **origin}


def format_parameters(named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns parameters as JSON values: numbers, and infinity as text."""
    numbers = {name: read_number(name, number) for name, number in named.items()}
    return {name: "inf" if math.isinf(number) else number for name, number in numbers.items()}


def _read_setting(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, list):
        return [[read_number(name, number) for number in read_list(name, row)] for row in value]
    return read_number(name, value)


# --- Claims ---


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta)-differential privacy of the shuffled messages of ``users`` users who all run ``randomizer``.

    Attributes:
        randomizer: Name and settings of a mechanism, parameters, or a table.
        users: Number of honest users.
        epsilon: The claimed ε.
        delta: The claimed δ.
        bound: Name of the bound that the proof rests on.
        theorem: The theorem of the bound.
        software: Versions of the software that wrote the claim.
        evidence: The fields of its kind, from which it is proved.
    """

    randomizer: Mapping[str, Any]
    users: int
    epsilon: float
    delta: float
    bound: str
    theorem: str
    software: Mapping[str, str]
    evidence: Evidence

    @property
    def statement(self) -> str:
        """The statement that is claimed."""
        return self.evidence.statement(self)


AnyClaim = TypeVar("AnyClaim", bound=Claim)


class Evidence(ABC):
    """The fields that a claim has besides its numbers, and the statement that follows from them."""

    bounds: ClassVar[tuple[str, ...]]
    """The bounds that such a claim may name."""
    rounding: ClassVar[str]
    """The rule by which the claimed number was rounded when the claim was made."""

    @classmethod
    @abstractmethod
    def document_fields(cls, document: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns the names of the evidence's fields in a file of this kind; all others belong to the claim."""

    @classmethod
    @abstractmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        """Returns the evidence of a file; raises ValueError if one of its fields is malformed."""

    @abstractmethod
    def to_document(self) -> dict[str, Any]:
        """Returns the evidence's fields as JSON values."""

    @abstractmethod
    def statement(self, claim: Claim) -> str:
        """Returns the statement that is claimed, in words determined by the numbers."""


@dataclass(frozen=True)
class RoundEvidence(Evidence):
    """The evidence of a claim about one round: a law, or numbers that determine a law."""

    messages: int | None = dataclasses.field(default=None, kw_only=True)
    """The number of messages that hide each other; None if every user sends one."""

    fields: ClassVar[tuple[str, ...]]
    user_dependent_fields: ClassVar[tuple[str, ...]] = ("messages",)
    """Names of the fields that depend on the number of users."""
    for_all_inputs: ClassVar[bool] = True
    """True if the claim holds for every two values, so that rounds and samples of it may be claimed."""

    @classmethod
    @abstractmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        """Returns True for a file of this kind, given that no earlier kind in ``EVIDENCE_CLASSES`` recognises it."""

    @classmethod
    def document_fields(cls, document: Mapping[str, Any]) -> tuple[str, ...]:
        return (*cls.fields, *(("messages",) if "messages" in document else ()))

    @property
    def messages_document(self) -> dict[str, Any]:
        """The optional field as JSON values."""
        return {} if self.messages is None else {"messages": self.messages}

    def statement(self, claim: Claim) -> str:
        return (
            f"Replacing one user's value changes the shuffled messages of {claim.users} users "
            f"by at most epsilon = {claim.epsilon!r}, delta = {claim.delta!r}."
        )


def _read_messages(fields: Mapping[str, Any]) -> int | None:
    if "messages" not in fields:
        return None
    return read_integer("messages", fields["messages"], 1, MAX_USERS)


@dataclass(frozen=True)
class BlanketEvidence(RoundEvidence):
    """One law of the other users' messages, for each direction of the divergence that may differ."""

    law: LawText
    """The classes of messages for each such direction."""

    bounds = (OPTIMAL, "variation-ratio", "stronger-clone", "clone")
    fields = ("law",)
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by 2e-8 of itself (delta: 1e-6) "
        f"and then rounded up to 7 digits, so that an independent proof has room; {_EXACT_FLOATS_NOTE}"
    )

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "law" in document

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        return cls(read_law("law", fields["law"]), messages=_read_messages(fields))

    def to_document(self) -> dict[str, Any]:
        return {"law": self.law, **self.messages_document}


@dataclass(frozen=True)
class PairEvidence(RoundEvidence):
    """One law for chosen values of a metric mechanism: two values, or all values that are close to each other."""

    inputs: Mapping[str, Any]
    law: LawText

    bounds = BlanketEvidence.bounds
    fields = ("inputs", "law")
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-8, 2e-5, 1e-3 of "
        "itself (delta: 1e-6, 1e-3, 1e-1) with which an independent proof was found and then rounded up to 7 digits; "
        f"{_EXACT_FLOATS_NOTE}"
    )
    for_all_inputs = False

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "inputs" in document

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        return cls(_read_inputs(fields["inputs"]), read_law("law", fields["law"]), messages=_read_messages(fields))

    def to_document(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "law": self.law, **self.messages_document}

    def statement(self, claim: Claim) -> str:
        if "diameter" in self.inputs:
            what = f"Replacing one user's value by one at most {self.inputs['diameter']!r} input units away"
        else:
            first, second = (repr(list(one) if isinstance(one, tuple) else one) for one in self.inputs["pair"])
            what = f"Replacing one user's value {first} by {second}, or {second} by {first},"
        return (
            f"{what} changes the shuffled messages of {claim.users} users "
            f"by at most epsilon = {claim.epsilon!r}, delta = {claim.delta!r}."
        )


def _read_inputs(value: Any) -> dict[str, Any]:
    name = "diameter" if isinstance(value, dict) and "diameter" in value else "pair"
    said = read_object("inputs", value, (name,))[name]
    if name == "diameter":
        return {name: read_number(name, said)}
    listed = read_list(name, said)
    if len(listed) != 2:
        raise malformed_error("a pair must be two inputs")
    return {name: tuple(_read_input(one) for one in listed)}


def _read_input(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(read_number("an input", each) for each in read_list("an input", value))
    number = read_number("an input", value)
    return value if isinstance(value, int) else number


@dataclass(frozen=True)
class LawFamilyText:
    """Every law of another user's message, for one direction of the divergence, as text."""

    gamma: str
    """The share of one law that every other user's law contains."""
    kinds: LawText

    def to_document(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        return {"gamma": self.gamma, "kinds": self.kinds}


@dataclass(frozen=True)
class WorstDatasetEvidence(RoundEvidence):
    """Every law that another user's message may have, for each direction of the divergence that may differ."""

    families: tuple[LawFamilyText, ...]

    bounds = (WORST_DATASET,)
    fields = ("crowds",)
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-5, 1e-4, 1e-3 of "
        "itself (delta: 1e-3, 1e-2, 1e-1) with which an independent proof was found and then rounded up to 7 digits; "
        f"{_EXACT_FLOATS_NOTE}"
    )

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return document.get("bound") == WORST_DATASET

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        listed = read_list("crowds", fields["crowds"])
        found = [read_object("a direction of crowds", item, ("gamma", "kinds")) for item in listed]
        families = (
            LawFamilyText(read_probability("gamma", one["gamma"]), read_law("kinds", one["kinds"])) for one in found
        )
        return cls(tuple(families), messages=_read_messages(fields))

    def to_document(self) -> dict[str, Any]:
        return {"crowds": [one.to_document() for one in self.families], **self.messages_document}


@dataclass(frozen=True)
class BinaryEvidence(RoundEvidence):
    """The least and the largest probability of one of two messages, over all values."""

    least: str
    most: str

    bounds = (EXACT_BINARY,)
    fields = ("coin",)
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 1e-6, 2e-5, 1e-4, "
        "1e-3 of itself (delta: 1e-4, 1e-3, 1e-2, 1e-1) with which an independent proof was found and then rounded up "
        f"to 7 digits; {_EXACT_FLOATS_NOTE}"
    )

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "coin" in document

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        coin = read_object("coin", fields["coin"], ("least", "most"))
        least, most = (read_fraction(name, coin[name]) for name in ("least", "most"))
        return cls(least, most, messages=_read_messages(fields))

    def to_document(self) -> dict[str, Any]:
        return {"coin": {"least": self.least, "most": self.most}, **self.messages_document}


@dataclass(frozen=True)
class RandomBlanketEvidence(RoundEvidence):
    """The law of a dummy, and the probability with which each of some other messages has it too."""

    law: LawText
    others: int
    chance: str

    bounds = (RANDOM_BLANKET,)
    fields = ("law", "others", "chance")
    user_dependent_fields = ("others", "chance", "messages")
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-5, 1e-4, 1e-3, "
        "1e-2 of itself (delta: 1e-3, 1e-2, 1e-1, 1) with which an independent proof was found and then rounded up "
        f"to 7 digits; {_EXACT_FLOATS_NOTE}"
    )

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "chance" in document

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        others = read_integer("others", fields["others"], 1, MAX_USERS)
        chance = read_fraction("chance", fields["chance"])
        return cls(read_law("law", fields["law"]), others, chance, messages=_read_messages(fields))

    def to_document(self) -> dict[str, Any]:
        return {"law": self.law, "others": self.others, "chance": self.chance, **self.messages_document}


FactsText = dict[str, Any]
"""The numbers of a noise as JSON: texts, and one object for the noise inside."""


@dataclass(frozen=True)
class NoiseText:
    """The numbers of a noise, and how many such noises a changed value affects."""

    facts: FactsText
    times: int

    def to_document(self) -> dict[str, Any]:
        """Returns the fields as JSON values."""
        return {"times": self.times, "noise": self.facts}


@dataclass(frozen=True)
class NoiseEvidence(RoundEvidence):
    """The noises that hide a value, part by part."""

    noises: tuple[NoiseText, ...]

    bounds = (AGGREGATE_NOISE, COMPOSED_PARTS)
    fields = ("noises",)
    user_dependent_fields = ("noises", "messages")
    rounding = (
        "the computed value (epsilon, or delta where epsilon was given) is raised by the least of 2e-8, 2e-5, 1e-4, "
        "1e-3 of itself (delta: 1e-6, 1e-3, 1e-2, 1e-1) with which an independent proof was found and then rounded up "
        f"to 7 digits; {_EXACT_FLOATS_NOTE}"
    )

    @classmethod
    def recognises(cls, document: Mapping[str, Any]) -> bool:
        return "noises" in document

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        listed = read_list("noises", fields["noises"])
        found = [read_object("one of the noises", item, ("times", "noise")) for item in listed]
        noises = (
            NoiseText(_read_facts(one["noise"]), read_integer("times", one["times"], 1, MAX_NOISE_MULTIPLICITY))
            for one in found
        )
        return cls(tuple(noises), messages=_read_messages(fields))

    def to_document(self) -> dict[str, Any]:
        return {"noises": [one.to_document() for one in self.noises], **self.messages_document}


def _read_facts(value: Any, inside: bool = False) -> FactsText:
    """Returns an object of texts with at most one nested object."""
    if not isinstance(value, dict):
        raise malformed_error("a noise must be an object")
    found: FactsText = {}
    for name, said in value.items():
        if name == "noise" and not inside:
            found[name] = _read_facts(said, inside=True)
        elif name == "kind":
            found[name] = read_text(name, said)
        else:
            found[name] = read_fraction(f"{name} of a noise", said)
    return found


EVIDENCE_CLASSES: tuple[type[RoundEvidence], ...] = (
    PairEvidence,
    NoiseEvidence,
    BinaryEvidence,
    RandomBlanketEvidence,
    WorstDatasetEvidence,
    BlanketEvidence,
)
"""The first kind that recognises a file reads it; the last takes all remaining files."""

BOUNDS = tuple(dict.fromkeys(bound for kind in reversed(EVIDENCE_CLASSES) for bound in kind.bounds))
"""The bounds that have a proof here: those of one law, then the others."""


def find_evidence_class(document: Mapping[str, Any]) -> type[RoundEvidence]:
    """Returns the kind of a file."""
    return next((kind for kind in EVIDENCE_CLASSES if kind.recognises(document)), EVIDENCE_CLASSES[-1])


# --- Rounds and samples ---


@dataclass(frozen=True)
class RoundsEvidence(Evidence):
    """Points (ε, δ) of one round, the number of rounds, and the sampling of each."""

    plan: RoundsComposition
    """The number of rounds, the sampling of each, and the step of the grid on which their losses are added."""
    sizes: tuple[SizePoints, ...]
    """One size, or several possible sizes if coins decide; a size in between uses the points of the smaller one."""
    round_evidence: RoundEvidence
    """The evidence of one round, for the largest ε of a point."""
    evidence_by_size: Mapping[int, RoundEvidence] = dataclasses.field(default_factory=dict)
    """The evidence for other numbers of users, if some of its numbers depend on them."""

    bounds = BOUNDS
    rounding = (
        "every point (epsilon, delta) of one round has its computed delta raised by 1e-4, 1e-3, 1e-2 or 1e-1 of "
        "itself, with which an independent proof was found; the claimed value is what an independent composition of "
        f"these points gives, raised by 1e-7 of itself and then rounded up to 7 digits; {_EXACT_FLOATS_NOTE}"
    )

    @staticmethod
    def recognises(document: Mapping[str, Any]) -> bool:
        """Returns True for a file about several rounds, or about a sample."""
        return "schedule" in document

    @classmethod
    def document_fields(cls, document: Mapping[str, Any]) -> tuple[str, ...]:
        return ("schedule", "step", "sizes", *find_evidence_class(document).document_fields(document))

    @classmethod
    def from_document(cls, fields: Mapping[str, Any]) -> Self:
        rounds, draw = _read_schedule(fields["schedule"])
        step = read_between("step", fields["step"], 1)
        kind = find_evidence_class(fields)
        sizes, of_sizes = [], {}
        for item in read_list("sizes", fields["sizes"]):
            size, numbers = _read_size(item, kind.user_dependent_fields)
            sizes.append(size)
            if numbers:
                of_sizes[size.users] = kind.from_document({**fields, **numbers})
        if step == 0:
            raise malformed_error("step must be above 0")
        if sum(len(size.points) for size in sizes) > MAX_POINTS:
            raise malformed_error(f"there may be at most {MAX_POINTS} points")
        if [size.users for size in sizes] != sorted({size.users for size in sizes}):
            raise malformed_error("sizes must rise")
        if len(sizes) > 1 and (draw is None or draw.sample_size is not None):
            raise malformed_error("there must be one size, unless coins decide")
        return cls(RoundsComposition(rounds, draw, step), tuple(sizes), kind.from_document(fields), of_sizes)

    def to_document(self) -> dict[str, Any]:
        return {
            "schedule": _schedule_document(self.plan),
            "step": self.plan.step,
            "sizes": [self._size_document(size) for size in self.sizes],
            **self.round_evidence.to_document(),
        }

    def _size_document(self, size: SizePoints) -> dict[str, Any]:
        own = self.evidence_by_size.get(size.users)
        numbers = {} if own is None else {n: v for n, v in own.to_document().items() if n in own.user_dependent_fields}
        return {"users": size.users, "points": size.points, **numbers}

    def statement(self, claim: Claim) -> str:
        draw, rounds = self.plan.draw, self.plan.rounds
        number = f"{rounds} round{'s' if rounds > 1 else ''}"
        least = f"by at most epsilon = {claim.epsilon!r}, delta = {claim.delta!r}."
        if draw is None:
            whose = f"of {number} of {claim.users} users"
            return f"Replacing one user's values changes the shuffled messages {whose} {least}"
        people = f"{draw.population} people" + (f", {draw.colluding} of whom collude," if draw.colluding else "")
        return (
            f"Replacing the values of one of {people} changes the shuffled messages of {number}, "
            f"in {'each of ' if rounds > 1 else ''}which {_format_draw(draw, claim.users, rounds)}, {least} "
            f"This {SECRECY_CONDITION}."
        )

    def single_round_claim(self, claim: AnyClaim) -> AnyClaim:
        """Returns the claim that the law of the file is about: one round, at the largest ε of a point."""
        reach = max((epsilon for size in self.sizes for epsilon, _ in size.points), default=0.0)
        return dataclasses.replace(claim, epsilon=reach, evidence=self.round_evidence)


def _format_draw(draw: Draw, users: int, rounds: int) -> str:
    if draw.sample_size is None:
        return f"everyone takes part with probability {draw.rate}, by a coin of their own"
    came = f" and at least {users} who do not collude come" if users < draw.sample_size else ""
    return f"{draw.sample_size} are drawn {'anew ' if rounds > 1 else ''}at random{came}"


def _schedule_document(plan: RoundsComposition) -> dict[str, Any]:
    draw = plan.draw
    if draw is None:
        return {"rounds": plan.rounds}
    how = {"rate": draw.rate} if draw.sample_size is None else {"drawn": draw.sample_size}
    return {"rounds": plan.rounds, "of": draw.population, **how, "colluding": draw.colluding}


def _read_schedule(value: Any) -> tuple[int, Draw | None]:
    if not isinstance(value, dict):
        raise malformed_error("schedule must be an object")
    if "of" not in value:
        named = read_object("schedule", value, ("rounds",))
        return read_integer("rounds", named["rounds"], 1, MAX_ROUNDS), None
    how = "rate" if "rate" in value else "drawn"
    named = read_object("schedule", value, ("rounds", "of", how, "colluding"))
    rounds = read_integer("rounds", named["rounds"], 1, MAX_ROUNDS)
    of = read_integer("of", named["of"], 1, MAX_USERS)
    colluding = read_integer("colluding", named["colluding"], 0, of - 1)
    if how == "drawn":
        return rounds, Draw(of, colluding, read_integer("drawn", named["drawn"], 1, of))
    rate = read_text("rate", named["rate"])
    if not _RATE.fullmatch(rate):
        raise malformed_error("rate must be a decimal between 0 and 1, as a text without zeros at its end")
    return rounds, Draw(of, colluding, rate=rate)


def _read_size(value: Any, numbers: Sequence[str]) -> tuple[SizePoints, dict[str, Any]]:
    """Returns a size, and the numbers of the evidence that are specific to it."""
    own = [name for name in numbers if isinstance(value, dict) and name in value]
    named = read_object("a size", value, ("users", "points", *own))
    points = []
    for item in read_list("points", named["points"]):
        if not isinstance(item, list) or len(item) != 2:
            raise malformed_error("a point must be a list of epsilon and delta")
        epsilon = read_between("epsilon of a point", item[0], MAX_EPSILON)
        points.append((epsilon, read_between("delta of a point", item[1], 1)))
    if any(one[0] >= other[0] for one, other in pairwise(points)):
        raise malformed_error("the epsilons of points must rise")
    users = read_integer("users of a size", named["users"], 1, MAX_USERS)
    return SizePoints(users, tuple(points)), {name: named[name] for name in own}


# --- Files ---


def read_claim(path: str | PathLike[str]) -> Claim:
    """Reads the claim of a file.

    Args:
        path: The file.

    Returns:
        The claim.

    Raises:
        ValueError: If the file cannot be read, or is not a certificate.
    """
    return parse_claim(read_claim_text(path))


def read_claim_text(path: str | PathLike[str]) -> str:
    """Returns the text of a claim file; raises ValueError if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"verify: cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"verify: {path} is not text.") from None


def parse_claim(text: str, randomizer: Callable[[Any], dict[str, Any]] = read_randomizer) -> Claim:
    """Reads the claim of a text.

    Args:
        text: The content of a claim file.
        randomizer: Reads the description of the randomizer; the default knows no mechanism.

    Returns:
        The claim.

    Raises:
        ValueError: If a field is missing, unknown or of the wrong type.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError) as error:
        raise malformed_error(f"expected JSON, got: {error}") from None
    if not isinstance(document, dict):
        raise malformed_error("the certificate must be an object")
    kind: type[Evidence] = RoundsEvidence if RoundsEvidence.recognises(document) else find_evidence_class(document)
    fields = read_object("the certificate", document, (*CLAIM_FIELDS, *kind.document_fields(document), "software"))
    if fields["format"] != FORMAT or fields["version"] != FORMAT_VERSION or isinstance(fields["version"], bool):
        raise malformed_error(
            f"expected {FORMAT!r} version {FORMAT_VERSION}, got {fields['format']!r} version {fields['version']!r}"
        )
    if fields["guarantee"] is not True:
        raise malformed_error(f"guarantee must be true, got {fields['guarantee']!r}")
    if fields["rounding"] != kind.rounding:
        raise malformed_error("rounding is not the text of this version")
    versions = read_object("software", fields["software"], SOFTWARE_NAMES)
    claim = Claim(
        randomizer(fields["randomizer"]),
        read_integer("users", fields["users"], 1, MAX_USERS),
        read_between("epsilon", fields["epsilon"], MAX_EPSILON),
        read_between("delta", fields["delta"], 1),
        read_text("bound", fields["bound"]),
        read_text("theorem", fields["theorem"]),
        {name: read_text(name, said) for name, said in versions.items()},
        kind.from_document(fields),
    )
    if fields["statement"] != claim.statement:
        raise malformed_error("the statement does not say what the numbers say")
    return claim


def _refuse_constant(text: str) -> Any:
    raise malformed_error(f"{text} is not a number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise malformed_error("a field stands twice")
    return result
