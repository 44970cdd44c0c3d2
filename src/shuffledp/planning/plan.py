"""A plan of a collection and its JSON file: task, mechanism, users, privacy target and expected error.

``Plan.save`` writes what ``Plan.load`` reads::

    {
     "format": "shuffledp plan", "version": 2, "software": {"shuffledp": "0.1.0"},
     "task": {"name": "frequency", "domain": {"categories": ["red", "green", "blue"]}},
     "mechanism": {"name": "krr", "epsilon": 4.0, "settings": {"options": 3}},
     "population": "visitors", "users": 100000, "rounds": 1,
     "epsilon": 1.0, "delta": 1e-08, "bound": "best",
     "promise": {"standard_error": 210.0}, "check": "…"
    }

``epsilon`` and ``delta`` are the central target for all ``rounds`` together; the mechanism's ``epsilon`` is local. If
the users of a round are a sample, ``of`` is the number of people from whom they are drawn; if each person takes part by
a coin flip, ``rate`` is the probability and ``users`` the expected number. ``minimum`` is the smallest number of users
with whom the target must hold, ``colluding`` the number of those who collude. ``target_distances`` is the matrix of the
target ε of every two values. ``effort`` is "full" if bounds that take seconds were used. The file holds all settings of
the mechanism, so that later defaults do not change the plan, and the version that wrote it. ``check`` is a SHA-256 of
the rest: a changed file is rejected; a file written by hand needs no check.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from shuffledp._core import __version__, validation
from shuffledp._core.errors import NotApplicable, error_phrase
from shuffledp._core.formatting import format_average, format_exact, format_rounded_up, format_settings
from shuffledp._core.message_phrases import phrase
from shuffledp._core.results_and_value_objects import PrintableResult, ValueObject
from shuffledp._core.validation import Floats
from shuffledp.bounds.amplify import bound_names
from shuffledp.bounds.local_metric_solver import PairProofs
from shuffledp.bounds.participation import Participation
from shuffledp.bounds.registry import QUICK_EFFORT, check_effort
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.privacy.metric_space import DistanceMatrix
from shuffledp.statement import conditions
from shuffledp.tasks import domain, registry
from shuffledp.tasks.base import Task
from shuffledp.tasks.column_reader import ColumnReader
from shuffledp.tasks.value_parsing import STRICT_RULES, Rules

# --- Targets for pairs of values ---


def parse_target_distances(distances: Any) -> DistanceMatrix | None:
    """Converts a table of target distances to a matrix; returns a matrix or None as it is."""
    if distances is None or isinstance(distances, DistanceMatrix):
        return distances
    with validation.relabel_errors("plan", "DistanceMatrix"):
        return DistanceMatrix(distances)


@dataclass(frozen=True)
class PairTargets(ValueObject):
    """The target ε after shuffling of every two values, for a mechanism that is private for local distances.

    Theorem: ``metric.MetricVariationRatio`` for each pair: a statement about every randomizer that is private for the
        local distances holds for this one.
    Requires: one round, and one value of each person.
    """

    target: DistanceMatrix
    mechanism: Mechanism
    delta: float
    rounds: int = 1

    def __post_init__(self) -> None:
        space = getattr(self.mechanism, "space", None)
        if not isinstance(space, DistanceMatrix):
            raise ValueError(
                f"plan: target distances need a mechanism on distances, such as padded-exponential, "
                f"got {self.mechanism.name}."
            )
        if space.size != self.target.size:
            raise ValueError(
                f"plan: expected target distances of {space.size} values, as {self.mechanism.name} has, "
                f"got {self.target.size}."
            )
        if self.rounds > 1:
            raise ValueError(f"plan: target distances are for one round, got rounds = {self.rounds}.")

    @cached_property
    def local_distances(self) -> DistanceMatrix:
        """The distances for which the mechanism itself is private."""
        space = getattr(self.mechanism, "space", None)
        assert isinstance(space, DistanceMatrix)
        return space

    def proved_epsilons(self, honest: int) -> Floats:
        """Returns the ε proved for each pair with ``honest`` users; infinite if its target is missed."""
        return self._pair_proofs(honest).prove_distances(self.local_distances)

    def find_missed_pair(self, honest: int) -> tuple[int, int] | None:
        """Returns the first two values that miss their target with ``honest`` users; None if none do."""
        return self._pair_proofs(honest).find_unproved_pair(self.local_distances)

    def _pair_proofs(self, honest: int) -> PairProofs:
        return self._proofs_by_users.setdefault(honest, PairProofs(self.target, honest, self.delta))

    @cached_property
    def _proofs_by_users(self) -> dict[int, PairProofs]:
        """Proofs by number of users: each caches its results."""
        return {}

    def describe(self) -> str:
        """Returns a short text of the targets."""
        least, most = self.target.smallest_distance, self.target.diameter
        return f"an ε for each pair, from {least:.6g} to {most:.6g}"

    def check_targets(self, honest: int) -> None:
        """Raises NotApplicable if a pair misses its target."""
        pair = self.find_missed_pair(honest)
        if pair is not None:
            raise NotApplicable(type(self.mechanism).__name__, self.describe_missed_pair(pair, honest))

    def describe_missed_pair(self, pair: tuple[int, int], honest: int) -> str:
        """Describes the pair that misses its target."""
        a, b = pair
        return (
            f"values {a} and {b} have the target ε = {float(self.target.matrix[a, b]):.6g}, which cannot be proved for "
            f"the local distances with {honest:,} users; solve the metric for this number of users"
        )


FORMAT, VERSION = "shuffledp plan", 2
IDENTITY_TAG = b"shuffledp messages of a plan\0"
FINGERPRINT_TAG = b"shuffledp rounds of a plan\0"
CHECK_TAG = b"shuffledp plan\0"
OPTIONAL_FIELDS: dict[str, Any] = {
    "bound": "best", "population": "everyone", "rounds": 1, "promise": {}, "software": {}, "ledger": {}, "check": None,
    "minimum": None, "colluding": 0, "target_distances": None, "effort": QUICK_EFFORT, "of": None, "rate": None,
    "read_from_data": [],
}  # fmt: skip
"""Fields that a file may omit, with their defaults."""
PLAN_FIELDS = ("format", "version", "task", "mechanism", "users", "epsilon", "delta", *OPTIONAL_FIELDS)
UNCONVERTED_FIELDS = (
    "users", "epsilon", "delta", "bound", "population", "rounds", "minimum", "colluding", "target_distances", "effort",
    "rate", "read_from_data",
)  # fmt: skip


def check_honest_users(users: int, minimum: int | None, colluding: int) -> tuple[int | None, int]:
    """Returns the minimum, None if it is all users, and the number of colluding users.

    Raises ValueError if no honest user is left.
    """
    if minimum is not None:
        minimum = validation.count("plan", "minimum", minimum)
        if minimum > users:
            raise ValueError(f"plan: minimum must be at most the {users} planned users, got {minimum}.")
    least, lost = minimum or users, validation.count("plan", "colluding", colluding, at_least=0)
    if lost >= least:
        raise ValueError(f"plan: colluding must be below the {least} users of the minimum, got {lost}.")
    return None if least == users else least, lost


def current_software() -> dict[str, str]:
    """Returns the version of this software, for a new plan."""
    return {"shuffledp": __version__}


@dataclass(frozen=True, eq=False)
class Plan(PrintableResult):
    """One collection, ready to run.

    Args:
        task: Task to estimate.
        mechanism: Local randomizer.
        users: Planned number of users in each round; the expected number if each person takes part by a coin flip.
        epsilon: Target of the central ε over all rounds.
        delta: Target of δ over all rounds.
        bound: Name of the bound that proves the guarantee.
        population: Name of the users in the ledger.
        rounds: Number of rounds.
        promise: Numbers that the planner expects, by name, such as ``standard_error`` in the unit of the estimate.
        software: Version that wrote the plan; empty if it was written by hand.
        ledger: Ledger that must be used and its head, as ``Head.to_document()`` returns them; empty for any ledger.
        minimum: Smallest number of users with whom the target must be met; None for all of them.
        colluding: Number of those users who collude with the analyst and hide nobody.
        target_distances: Target ε after shuffling of every two values, at δ, for a mechanism that is private for local
            distances; None if all have the same target.
        effort: Bounds that prove the guarantee: "quick" ones, or "full" for all of them.
        out_of: Number of people from whom the users of a round are drawn; None if they are always the same.
        rate: Probability that each of these people takes part, if a coin flip decides; it determines ``users``.
        read_from_data: Parts of the domain that were read from users' data. No guarantee covers them, and every report
            says so.

    Raises:
        ValueError: If a number is out of range, the mechanism cannot do the task, or the bound is unknown.
        TypeError: If an argument is of the wrong type.

    >>> from shuffledp.mechanisms.frequency.randomized_response import KRR
    >>> from shuffledp.tasks.counts_and_frequencies import Frequency
    >>> plan = Plan(Frequency(["red", "green"]), KRR(2.0, 2), users=1000, epsilon=1.0, delta=1e-6)
    >>> Plan.parse(plan.text()) == plan
    True
    """

    task: Task
    mechanism: Mechanism
    users: int
    epsilon: float
    delta: float
    bound: str = "best"
    population: str = "everyone"
    rounds: int = 1
    promise: Mapping[str, float] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=current_software)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    minimum: int | None = None
    colluding: int = 0
    target_distances: DistanceMatrix | None = None
    effort: str = QUICK_EFFORT
    out_of: int | None = None
    rate: str | None = None
    read_from_data: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise TypeError(f"plan: task must be a task, such as tasks.Frequency(10), got {self.task!r}.")
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"plan: mechanism must be a mechanism, such as KRR(2.0, 10), got {self.mechanism!r}.")
        check_effort("plan", self.effort)
        if isinstance(self.read_from_data, str) or not all(isinstance(each, str) for each in self.read_from_data):
            raise TypeError(f"plan: read_from_data must be a list of texts, got {self.read_from_data!r}.")
        object.__setattr__(self, "read_from_data", tuple(self.read_from_data))
        for name in ("bound", "population"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise TypeError(f"plan: {name} must be a text, got {text!r}.")
        object.__setattr__(self, "users", validation.count("plan", "users", self.users))
        self._check_participation()
        minimum, colluding = check_honest_users(self.users, self.minimum, self.colluding)
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "colluding", colluding)
        object.__setattr__(self, "epsilon", validation.positive_finite("plan", "epsilon", self.epsilon))
        object.__setattr__(self, "delta", validation.open_probability("plan", "delta", self.delta))
        promise = {key: validation.real("plan", f"promise {key!r}", number) for key, number in self.promise.items()}
        object.__setattr__(self, "promise", promise)
        kinds = {name: type(value) for name, value in self.ledger.items()}
        if kinds not in ({}, {"id": str, "entry": int, "head": str}):
            raise ValueError('plan: ledger must have a text "id", a whole number "entry" and a text "head".')
        if self.bound not in bound_names():
            raise ValueError(f"plan: bound must be one of {', '.join(bound_names())}, got {self.bound!r}.")
        _with_plan_prefix(catalogue.find_buildable_class, self.mechanism.name)
        self.task.check_mechanism(self.mechanism)
        object.__setattr__(self, "target_distances", parse_target_distances(self.target_distances))
        # Raises an error if the targets of pairs do not suit the mechanism.
        _ = self.pair_targets

    def _check_participation(self) -> None:
        """Normalises the participation: a rate becomes a decimal, and determines the number of users."""
        with validation.relabel_errors("plan", "Participation"):
            participation = self.participation
        if participation.is_sampled and self.target_distances is not None:
            raise ValueError("plan: target distances are for all users, not for a sample of them.")
        expected = participation.expected_users
        if self.rate is not None and self.users != expected:
            raise ValueError(f"plan: users must be {expected}, which follows from of and rate, got {self.users}.")
        object.__setattr__(self, "rounds", participation.rounds)
        sampling = participation.sampling_document()
        object.__setattr__(self, "out_of", sampling.get("of"))
        object.__setattr__(self, "rate", sampling.get("rate"))

    @cached_property
    def participation(self) -> Participation:
        """The participation in each round, and the number of rounds."""
        return Participation.from_document(
            {"users": self.users, "of": self.out_of, "rate": self.rate, "rounds": self.rounds}
        )

    @property
    def schedule(self) -> Participation:
        """Deprecated: the old name of ``participation``."""
        warnings.warn("Plan.schedule is now called Plan.participation.", DeprecationWarning, stacklevel=2)
        return self.participation

    @cached_property
    def pair_targets(self) -> PairTargets | None:
        """The targets of pairs of values, if there are any."""
        if self.target_distances is None:
            return None
        return PairTargets(self.target_distances, self.mechanism, self.delta, self.rounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._comparable_document() == other._comparable_document()

    def __hash__(self) -> int:
        return hash((self.mechanism.name, self.users, self.epsilon, self.delta))

    def _comparable_document(self) -> dict[str, Any]:
        """Returns everything that determines the collection."""
        return self.document() | {"software": None, "ledger": None}

    def identity(self, round_number: int = 1) -> str:
        """Returns the identity of the messages of one round: a hash of task, domain, mechanism, population and round.

        Messages of plans that differ in any of these must not be mixed. The number of users and the target are not part
        of it: they do not change the meaning of a message.

        Args:
            round_number: Round, from 1.

        Returns:
            64 hexadecimal digits.

        Raises:
            ValueError: If the plan has no such round.
        """
        self.task.check_planned_round(round_number, self.rounds)
        return hashlib.sha256(IDENTITY_TAG + _canonical(self._shared_parts() | {"round": round_number})).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of task, domain, mechanism and population, the same for all rounds: 64 hexadecimal digits."""
        return hashlib.sha256(FINGERPRINT_TAG + _canonical(self._shared_parts())).hexdigest()

    def _shared_parts(self) -> dict[str, Any]:
        """Returns everything that determines the meaning of messages, except the round."""
        return {
            "task": self.task.to_document(),
            "mechanism": self.mechanism.to_document(),
            "population": self.population,
        }

    @property
    def round_numbers(self) -> Sequence[int]:
        """The rounds that can be collected with this plan: all of them, but only one of a search."""
        only = self.task.only_round
        return range(1, self.rounds + 1) if only is None else (only,)

    def find_round(self, identity: str) -> int | None:
        """Returns the round that messages belong to.

        Args:
            identity: Identity of the messages.

        Returns:
            The round, from 1; None if they belong to no round of this plan.
        """
        return next((number for number in self.round_numbers if self.identity(number) == identity), None)

    def format_round(self, number: int) -> str:
        """Returns a text such as "round 3 of 52".

        Args:
            number: Round, from 1.

        Returns:
            The text.
        """
        return f"round {number:,} of {self.rounds:,}"

    @property
    def fewest(self) -> int:
        """The smallest number of users with whom the target must be met."""
        return self.users if self.minimum is None else self.minimum

    def build_next_plan(self, estimate: Estimate) -> Plan | None:
        """Returns the plan of the next round, if it depends on the results of this one.

        Args:
            estimate: Estimate of this round.

        Returns:
            The next plan; None if rounds do not depend on each other or this is the last one.
        """
        task = self.task.build_next_task(estimate)
        return None if task is None else replace(self, task=task)

    def column(self, *names: str, rules: Rules = STRICT_RULES) -> ColumnReader:
        """Returns the reader of one or several columns.

        Args:
            *names: Names of the columns.
            rules: Rules for cells that do not fit the plan.

        Returns:
            The reader.
        """
        return ColumnReader(names, self.task, self.mechanism, rules)

    # --- File ---

    def document(self) -> dict[str, Any]:
        """Returns the JSON document of the plan."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "software": dict(self.software),
            "task": self.task.to_document(),
            "mechanism": self.mechanism.to_document(),
            "population": self.population,
            "users": self.users,
            "rounds": self.rounds,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.bound,
            "promise": dict(self.promise),
            # Defaults are not written, so that plans that use none of these fields keep their files.
            **self.participation.sampling_document(),
            **({} if self.minimum is None else {"minimum": self.minimum}),
            **({"colluding": self.colluding} if self.colluding else {}),
            **({} if self.target_distances is None else {"target_distances": self.target_distances.matrix.tolist()}),
            **({} if self.effort == QUICK_EFFORT else {"effort": self.effort}),
            **({"read_from_data": list(self.read_from_data)} if self.read_from_data else {}),
            **({"ledger": dict(self.ledger)} if self.ledger else {}),
        }

    def text(self) -> str:
        """Returns the text of the plan file."""
        document = self.document()
        return (
            json.dumps(document | {"check": _checksum(document)}, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file.

        Args:
            path: Path of the file.

        Raises:
            ValueError: If the file cannot be written.
        """
        try:
            Path(path).write_text(self.text(), encoding="utf-8")
        except OSError as error:
            raise ValueError(f"plan: cannot write {os.fspath(path)}: {error.strerror}.") from None

    @classmethod
    def load_if_path(cls, given: Plan | str | os.PathLike[str]) -> Plan:
        """Returns a plan as it is, or loads its file.

        Args:
            given: Plan, or path of its file.

        Returns:
            The plan.

        Raises:
            ValueError: If the file cannot be read or is not a plan.
            TypeError: If it is neither a plan nor a path.
        """
        if isinstance(given, Plan):
            return given
        if not isinstance(given, str | os.PathLike):
            raise TypeError(f"plan: expected a plan or the path of one, got {type(given).__name__}.")
        return cls.load(given)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a file that ``save`` wrote or that was written by hand.

        Args:
            path: Path of the file.

        Returns:
            The plan.

        Raises:
            ValueError: If the file cannot be read, is not a plan, or was changed since it was written.
            TypeError: If a field is of the wrong type.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"plan: cannot read {os.fspath(path)}: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise ValueError(f"plan: {os.fspath(path)} is not text.") from None
        return cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Reads a plan from the text of its file.

        Args:
            text: Text of the file.

        Returns:
            The plan.

        Raises:
            ValueError: If it is not a plan, is of another version, or was changed since it was written.
            TypeError: If a field is of the wrong type.
        """
        try:
            document = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"plan: expected JSON, got: {str(error).rstrip('.')}.") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f'plan: expected a file with "format": "{FORMAT}", got something else.')
        version = document.get("version")
        if type(version) is not int or version != VERSION:
            newer = type(version) is int and version > VERSION
            hint = f"; upgrade shuffledp, which is {__version__}" if newer else ""
            raise ValueError(f"plan: expected version {VERSION}, got {version!r}{hint}.")
        if "check" in document and document["check"] != _checksum(document):
            raise ValueError(
                'plan: the file was changed since it was written; plan again, or delete "check" to use it as it is.'
            )
        fields = _check_fields("the plan", OPTIONAL_FIELDS | document, PLAN_FIELDS)
        with validation.relabel_errors("plan", domain.TASK_PREFIX):
            task = registry.read_task(_check_mapping("task", fields["task"]))
            mechanism = _read_mechanism(fields["mechanism"])
        mappings: dict[str, Any] = {
            name: _check_mapping(name, fields[name]) for name in ("promise", "software", "ledger")
        }
        return cls(
            task, mechanism, out_of=fields["of"], **mappings, **{name: fields[name] for name in UNCONVERTED_FIELDS}
        )

    # --- Text ---

    def conditions(self) -> tuple[str, ...]:
        """Returns the conditions under which the guarantee holds."""
        participation = self.participation
        if participation.is_sampled and self.minimum is not None:
            participation = participation.with_respondents(self.minimum, self.delta)
        return conditions(self.mechanism, participation, colluding=self.colluding)

    def summary(self) -> list[tuple[str, str]]:
        """Returns the headings and texts of the summary."""
        settings = format_settings(self.mechanism.to_document()["settings"])
        local = self.mechanism.local_epsilon
        rounds = "" if self.rounds == 1 else f", over {self.rounds:,} rounds"
        expected_error = self.promise.get("standard_error")
        return [
            ("users", f"{self.users:,} ({self.population})"),
            *([("drawn", self.participation.describe())] if self.participation.is_sampled else []),
            *([] if self.minimum is None else [("minimum", f"{self.minimum:,}")]),
            *([("colluding", f"{self.colluding:,}, who hide nobody")] if self.colluding else []),
            ("target", f"ε = {format_exact(self.epsilon)}, δ = {format_exact(self.delta)}{rounds}"),
            *([] if self.pair_targets is None else [("target of two values", self.pair_targets.describe())]),
            ("mechanism", f"{self.mechanism.name}" + (f" ({settings})" if settings else "")),
            ("local ε", "none: the shuffler must be trusted" if local is None else format_rounded_up(local)),
            *([("noise", "drawn by the shuffler")] if self.mechanism.message_plan.has_shuffler_noise else []),
            ("sends", f"{format_average(self.mechanism.message_bits * self.mechanism.messages_per_user)} bits a user"),
            *([] if expected_error is None else [("expected error", f"{expected_error:.4g} {self.task.unit}")]),
            *self.task.describe_promises(self.promise),
        ]

    @property
    def heading(self) -> str:
        return f"Plan: {self.task.name}"


def _checksum(document: Mapping[str, Any]) -> str:
    """Returns a hash of everything in a file except the check itself."""
    rest = {name: value for name, value in document.items() if name != "check"}
    return hashlib.sha256(CHECK_TAG + _canonical(rest)).hexdigest()


def _canonical(document: Mapping[str, Any]) -> bytes:
    """Serialises a document to bytes that do not depend on its layout."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


# --- Reading ---


def _read_mechanism(value: Any) -> Mechanism:
    document = _check_fields(
        "mechanism", {"settings": {}, "epsilon": None} | _check_mapping("mechanism", value),
        ("name", "epsilon", "settings"),
    )  # fmt: skip
    name = document["name"]
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"plan: mechanism must be a text, got {name!r}.")
    settings = _check_mapping("settings", document["settings"])
    if document["epsilon"] not in (None, "inf"):
        validation.real("plan", "the mechanism's epsilon", document["epsilon"])
    known = {key: setting for key, setting in settings.items() if setting is not None}
    mechanism: Mechanism = _with_plan_prefix(catalogue.from_document, document | {"settings": known})
    return mechanism


def _with_plan_prefix(build: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return build(argument)
    except (ValueError, TypeError) as error:
        raise ValueError(phrase("plan: {error}", error=error_phrase(error))) from None


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text}, which is not a number")


def _check_mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"plan: {name} must be an object, got {value!r}.")
    return value


def _check_fields(name: str, document: dict[str, Any], expected: tuple[str, ...]) -> dict[str, Any]:
    missing = [key for key in expected if key not in document]
    if missing:
        raise ValueError(f"plan: {name} lacks the field {missing[0]!r}.")
    unknown = [key for key in document if key not in expected]
    if unknown:
        raise ValueError(f"plan: {name} has the unknown field {unknown[0]!r}.")
    return document
