"""A plan: what is collected from whom, by which mechanism, and what that promises; a small JSON file.

``Plan.save`` writes what ``Plan.load`` reads::

    {
     "format": "shuffledp plan", "version": 2, "software": {"shuffledp": "0.1.0"},
     "task": {"name": "frequency", "domain": {"categories": ["red", "green", "blue"]}},
     "mechanism": {"name": "krr", "epsilon": 4.0, "settings": {"options": 3}},
     "population": "visitors", "users": 100000, "rounds": 1,
     "epsilon": 1.0, "delta": 1e-08, "bound": "best",
     "promise": {"standard_error": 210.0}, "check": "…"
    }

``epsilon`` and ``delta`` are the central target for all ``rounds`` together; the mechanism's ``epsilon`` is local.
Where the users of a round are drawn, ``of`` says out of how many, and ``rate`` with what probability each, where a coin
decides; ``users`` is then how many come on average. Where the target is to hold with fewer users, of whom some collude,
``minimum`` and ``colluding`` say how many. Where every two values are promised an ε of their own, ``target_distances``
has a row of them for each value. ``effort`` is "full" where bounds that take seconds were looked at. All
settings that are in force are written down, so that a plan runs as it was planned whatever later defaults are; and
which version wrote it. ``check`` is a SHA-256 of the rest: a file that was changed since is refused, and one that is
written by hand needs none. Version 1, which named the mechanism's task and not the users', is still read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.bounds.amplify import bound_names
from shuffledp.bounds.best import QUICK, demand_effort
from shuffledp.bounds.schedule import Schedule
from shuffledp.document import average_text, rounded_up, settings_text, typed
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.estimate import Estimate
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.planner.pair_promise import PairPromise, promised
from shuffledp.privacy.space import DistanceMatrix
from shuffledp.readable import Readable
from shuffledp.statement.condition import conditions
from shuffledp.tasks import domain, task_list
from shuffledp.tasks.column import Column
from shuffledp.tasks.rules import STRICT, Rules
from shuffledp.tasks.task import Task
from shuffledp.version import __version__

FORMAT, VERSION = "shuffledp plan", 2
IDENTITY = b"shuffledp messages of a plan\0"
FINGERPRINT = b"shuffledp rounds of a plan\0"
CHECK = b"shuffledp plan\0"
SHARED = ("format", "version", "task", "mechanism", "population", "users", "rounds", "epsilon", "delta", "bound",
          "promise")  # fmt: skip
FIELDS = {
    1: (*SHARED, "domain"),
    VERSION: (
        *SHARED,
        "software",
        "of",
        "rate",
        "minimum",
        "colluding",
        "target_distances",
        "effort",
        "ledger",
        "read_from_data",
        "check",
    ),
}
"""What a file of each version holds."""
OPTIONAL = {"bound": "best", "population": "everyone", "rounds": 1, "promise": {}}
LATER: dict[str, Any] = {
    "software": {}, "ledger": {}, "check": None, "minimum": None, "colluding": 0, "target_distances": None,
    "effort": QUICK, "of": None, "rate": None, "read_from_data": [],
}  # fmt: skip
"""What a file of version 2 may leave out besides."""
NUMBERS_AND_NAMES = ("users", "epsilon", "delta", "bound", "population", "rounds")


def demand_honest(users: int, minimum: int | None, colluding: int) -> tuple[int | None, int]:
    """The least number of users, None where it is all of them, and how many of those collude; a sentence if none is
    left."""
    if minimum is not None:
        minimum = argument.count("plan", "minimum", minimum)
        if minimum > users:
            raise ValueError(f"plan: minimum must be at most the {users} users that are planned for, got {minimum}.")
    least, lost = minimum or users, argument.count("plan", "colluding", colluding, at_least=0)
    if lost >= least:
        raise ValueError(f"plan: colluding must be below the {least} users who take part at the least, got {lost}.")
    return None if least == users else least, lost


def written_by() -> dict[str, str]:
    """This software, for a plan that is made now."""
    return {"shuffledp": __version__}


@dataclass(frozen=True, eq=False)
class Plan(Readable):
    """One collection, ready to run.

    ``task`` is what is estimated, ``mechanism`` the local randomizer, ``users`` how many are planned for; ``epsilon``
    and ``delta`` are the central privacy that they are promised over all ``rounds``. ``population`` is what the ledger
    calls them, ``bound`` the theorem that the guarantee comes from. Where the target is to hold with fewer users too,
    ``minimum`` is the least number of them, and ``colluding`` how many hide nobody. ``target_distances`` promises every
    two values an ε of their own, where the mechanism is private for local distances.

    >>> from shuffledp.mechanisms.frequency.krr import KRR
    >>> from shuffledp.tasks.frequency import Frequency
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
    """What the planner expects, by name: for instance ``standard_error``, in the unit of the estimate."""
    software: Mapping[str, str] = field(default_factory=written_by)
    """Who wrote the plan; empty where it was written by hand, or before versions were written down."""
    ledger: Mapping[str, Any] = field(default_factory=dict)
    """The ledger that is to be kept and where it stood, as ``Head.document()`` tells it; empty where any will do."""
    minimum: int | None = None
    """The fewest users with whom the target is to be met; None where that is all who are planned for."""
    colluding: int = 0
    """How many of those tell the analyst what they sent, and hide nobody."""
    target_distances: DistanceMatrix | None = None
    """What every two values are promised after shuffling, at δ; None where all are promised the same."""
    effort: str = QUICK
    """Which bounds the promise comes from: "quick" ones, or "full", all of them."""
    out_of: int | None = None
    """Out of how many people the users of a round are drawn; None where they are always the same."""
    rate: str | None = None
    """The probability with which each of them takes part, where a coin decides; then ``users`` follows from it."""
    read_from_data: tuple[str, ...] = ()
    """What of the domain was read from people's own data, which no guarantee covers: every report says so."""

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise TypeError(f"plan: task must be a task, such as tasks.Frequency(10), got {self.task!r}.")
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"plan: mechanism must be a mechanism, such as KRR(2.0, 10), got {self.mechanism!r}.")
        demand_effort("plan", self.effort)
        if isinstance(self.read_from_data, str) or not all(isinstance(each, str) for each in self.read_from_data):
            raise TypeError(f"plan: read_from_data must be a list of texts, got {self.read_from_data!r}.")
        object.__setattr__(self, "read_from_data", tuple(self.read_from_data))
        for name in ("bound", "population"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise TypeError(f"plan: {name} must be a text, got {text!r}.")
        object.__setattr__(self, "users", argument.count("plan", "users", self.users))
        self._check_schedule()
        minimum, colluding = demand_honest(self.users, self.minimum, self.colluding)
        object.__setattr__(self, "minimum", minimum)
        object.__setattr__(self, "colluding", colluding)
        object.__setattr__(self, "epsilon", argument.positive_finite("plan", "epsilon", self.epsilon))
        object.__setattr__(self, "delta", argument.open_probability("plan", "delta", self.delta))
        object.__setattr__(self, "promise", {key: _promised(key, number) for key, number in self.promise.items()})
        kinds = {name: type(value) for name, value in self.ledger.items()}
        if kinds not in ({}, {"id": str, "entry": int, "head": str}):
            raise ValueError('plan: ledger must have a text "id", a whole number "entry" and a text "head".')
        if self.bound not in bound_names():
            raise ValueError(f"plan: bound must be one of {', '.join(bound_names())}, got {self.bound!r}.")
        _in_a_sentence(catalogue.kind_of, self.mechanism.name)
        self.task.demand(self.mechanism)
        object.__setattr__(self, "target_distances", promised(self.target_distances))
        # Refused here, if it does not suit the mechanism.
        _ = self.pair_promise

    def _check_schedule(self) -> None:
        """Who is drawn, in one form: a rate as a decimal, and as many users as follow from it."""
        with argument.said_by("plan", "Schedule"):
            schedule = self.schedule
        if schedule.is_sampled and self.target_distances is not None:
            raise ValueError("plan: target distances are for all users, not for those who are drawn out of more.")
        if self.rate is not None and self.users != schedule.expected:
            raise ValueError(
                f"plan: users must be the {schedule.expected} that follow from of and rate, got {self.users}."
            )
        object.__setattr__(self, "rounds", schedule.rounds)
        drawn = schedule.drawn()
        object.__setattr__(self, "out_of", drawn.get("of"))
        object.__setattr__(self, "rate", drawn.get("rate"))

    @cached_property
    def schedule(self) -> Schedule:
        """Who takes part in each round, and in how many rounds."""
        return Schedule.read({"users": self.users, "of": self.out_of, "rate": self.rate, "rounds": self.rounds})

    @cached_property
    def pair_promise(self) -> PairPromise | None:
        """What is promised to every two values, where that is more than the target for all."""
        if self.target_distances is None:
            return None
        return PairPromise(self.target_distances, self.mechanism, self.delta, self.rounds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash((self.mechanism.name, self.users, self.epsilon, self.delta))

    def _told(self) -> dict[str, Any]:
        """All that decides what is run: settings that were left out and the same ones that were given are one plan."""
        return self.document() | {"software": None, "ledger": None}

    def identity(self, round_number: int = 1) -> str:
        """What the messages of one round belong to, in 64 hexadecimal digits: task, domain, mechanism, population.

        Messages of plans that differ in any of these, or of another round, are not to be mixed with them. How many
        users are planned for, and the target, are not part of it: they do not change what a message means.
        """
        argument.count("plan", "round", round_number)
        if round_number > self.rounds:
            raise ValueError(f"plan: round must be at most {self.rounds}, as planned, got {round_number}.")
        self.task.demand_round(round_number)
        parts = {
            "task": self.task.document(), "mechanism": self.mechanism.document(), "population": self.population,
            "round": round_number,
        }  # fmt: skip
        return hashlib.sha256(IDENTITY + _canonical(parts)).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """What all rounds of the plan have in common, in 64 hexadecimal digits: task, domain, mechanism, population."""
        parts = {"task": self.task.document(), "mechanism": self.mechanism.document(), "population": self.population}
        return hashlib.sha256(FINGERPRINT + _canonical(parts)).hexdigest()

    @property
    def round_numbers(self) -> Sequence[int]:
        """The rounds that can be collected with this plan: all of them, but of a search the one that it asks."""
        asked = self.task.round_asked
        return range(1, self.rounds + 1) if asked is None else (asked,)

    def round_of(self, identity: str) -> int | None:
        """Returns the round that messages of this ``identity`` belong to; None where it is none of this plan."""
        return next((number for number in self.round_numbers if self.identity(number) == identity), None)

    def round_words(self, number: int) -> str:
        """Such as "round 3 of 52"."""
        return f"round {number:,} of {self.rounds:,}"

    @property
    def fewest(self) -> int:
        """The fewest users with whom the target is to be met."""
        return self.users if self.minimum is None else self.minimum

    def following(self, estimate: Estimate) -> Plan | None:
        """The plan of the next round, where it depends on what was found in this one; None where it does not."""
        task = self.task.following(estimate)
        return None if task is None else replace(self, task=task)

    def column(self, *names: str, rules: Rules = STRICT) -> Column:
        """How the column of this name, or several together, are read, by which rules for cells."""
        return Column(names, self.task, self.mechanism, rules)

    # --- the file ---------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """What the file holds."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "software": dict(self.software),
            "task": self.task.document(),
            "mechanism": self.mechanism.document(),
            "population": self.population,
            "users": self.users,
            "rounds": self.rounds,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.bound,
            "promise": dict(self.promise),
            # What is as ever is not written: such plans are the same files as ever.
            **self.schedule.drawn(),
            **({} if self.minimum is None else {"minimum": self.minimum}),
            **({"colluding": self.colluding} if self.colluding else {}),
            **({} if self.target_distances is None else {"target_distances": self.target_distances.matrix.tolist()}),
            **({} if self.effort == QUICK else {"effort": self.effort}),
            **({"read_from_data": list(self.read_from_data)} if self.read_from_data else {}),
            **({"ledger": dict(self.ledger)} if self.ledger else {}),
        }

    def text(self) -> str:
        """The file's text."""
        document = self.document()
        return json.dumps(document | {"check": _check(document)}, ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file."""
        try:
            Path(path).write_text(self.text(), encoding="utf-8")
        except OSError as error:
            raise ValueError(f"plan: cannot write {os.fspath(path)}: {error.strerror}.") from None

    @classmethod
    def of(cls, given: Plan | str | os.PathLike[str]) -> Plan:
        """A plan as it is, or from its file."""
        if isinstance(given, Plan):
            return given
        if not isinstance(given, str | os.PathLike):
            raise TypeError(f"plan: expected a plan or the path of one, got {type(given).__name__}.")
        return cls.load(given)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a file that ``save`` wrote, or that was written by hand; one sentence if it is not a plan."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"plan: cannot read {os.fspath(path)}: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise ValueError(f"plan: {os.fspath(path)} is not text.") from None
        return cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """The plan of a file's text."""
        try:
            document = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"plan: expected JSON, got: {str(error).rstrip('.')}.") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f'plan: expected a file with "format": "{FORMAT}", got something else.')
        version = document.get("version")
        if isinstance(version, bool) or version not in list(FIELDS):
            raise ValueError(f"plan: expected version {' or '.join(map(str, FIELDS))}, got {version!r}.")
        if "check" in document and document["check"] != _check(document):
            raise ValueError(
                'plan: the file is not as it was written; plan anew, or take the line "check" out to use it as it is.'
            )
        optional = OPTIONAL if version == 1 else OPTIONAL | LATER
        fields = _fields("the plan", optional | document, FIELDS[version])
        with argument.said_by("plan", domain.TASK):
            task, mechanism = _version_1(fields) if version == 1 else _version_2(fields)
        return cls(
            task,
            mechanism,
            promise=_mapping("promise", fields["promise"]),
            software=_mapping("software", fields.get("software", {})),
            ledger=_mapping("ledger", fields.get("ledger", {})),
            minimum=fields.get("minimum"),
            colluding=fields.get("colluding", 0),
            target_distances=fields.get("target_distances"),
            effort=fields.get("effort", QUICK),
            out_of=fields.get("of"),
            rate=fields.get("rate"),
            read_from_data=fields.get("read_from_data", ()),
            **{name: fields[name] for name in NUMBERS_AND_NAMES},
        )

    # --- for people -------------------------------------------------------------------------------------------

    def conditions(self) -> tuple[str, ...]:
        """What must be so for the promise to hold."""
        some_stay_away = self.schedule.is_sampled and self.minimum is not None
        schedule = self.schedule.answered_by(self.fewest, self.delta) if some_stay_away else self.schedule
        return conditions(self.mechanism, schedule, colluding=self.colluding)

    def summary(self) -> list[tuple[str, str]]:
        """The plan in a few lines: what each is called, and what it is."""
        settings = settings_text(self.mechanism.document()["settings"])
        local = self.mechanism.local_epsilon
        rounds = "" if self.rounds == 1 else f", over {self.rounds:,} rounds"
        promised = self.promise.get("standard_error")
        return [
            ("users", f"{self.users:,} ({self.population})"),
            *([("drawn", self.schedule.words())] if self.schedule.is_sampled else []),
            *([] if self.minimum is None else [("at the least", f"{self.minimum:,}")]),
            *([("colluding", f"{self.colluding:,}, who hide nobody")] if self.colluding else []),
            ("target", f"ε = {typed(self.epsilon)}, δ = {typed(self.delta)}{rounds}"),
            *([] if self.pair_promise is None else [("target of two values", self.pair_promise.words())]),
            ("mechanism", f"{self.mechanism.name}" + (f" ({settings})" if settings else "")),
            ("local ε", "none: the shuffler must be trusted" if local is None else rounded_up(local)),
            *([("noise", "drawn by the shuffler")] if self.mechanism.crowd.by_shuffler else []),
            ("sends", f"{average_text(self.mechanism.message_bits * self.mechanism.messages_per_user)} bits a user"),
            *([] if promised is None else [("expected error", f"{promised:.4g} {self.task.unit}")]),
            *self.task.told(self.promise),
        ]

    @property
    def heading(self) -> str:
        return f"Plan: {self.task.name}"


def _check(document: Mapping[str, Any]) -> str:
    """What changes with anything in a file; the check itself apart."""
    rest = {name: value for name, value in document.items() if name != "check"}
    return hashlib.sha256(CHECK + _canonical(rest)).hexdigest()


def _canonical(document: Mapping[str, Any]) -> bytes:
    """One text for one document, however it is laid out."""
    told = json.dumps(document, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return told.encode("utf-8", "surrogatepass")


# --- reading ------------------------------------------------------------------------------------------------------


def _version_2(fields: Mapping[str, Any]) -> tuple[Task, Mechanism]:
    return task_list.read(_mapping("task", fields["task"])), _mechanism(fields["mechanism"])


def _version_1(fields: Mapping[str, Any]) -> tuple[Task, Mechanism]:
    """The task that a plan was about which told the mechanism's task, and the domain beside it."""
    name = fields["task"]
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"plan: task must be a text, got {name!r}.")
    mechanism, values = _mechanism(fields["mechanism"]), domain.parse(fields["domain"])
    if mechanism.task != name:
        raise ValueError(f"plan: the task is {name!r}, but {mechanism.name} is a mechanism for {mechanism.task!r}.")
    return task_list.named(name).of_version_1(values, mechanism.settings()), mechanism


def _mechanism(given: Any) -> Mechanism:
    document = _fields("mechanism", {"settings": {}, "epsilon": None} | _mapping("mechanism", given),
                       ("name", "epsilon", "settings"))  # fmt: skip
    name = document["name"]
    if not isinstance(name, str) or not name.strip():
        raise TypeError(f"plan: mechanism must be a text, got {name!r}.")
    settings, local = _mapping("settings", document["settings"]), document["epsilon"]
    if local not in (None, "inf"):
        argument.real("plan", "the mechanism's epsilon", local)
    known = {key: value for key, value in settings.items() if value is not None}
    found: Mechanism = _in_a_sentence(catalogue.read, document | {"settings": known})
    return found


def _in_a_sentence(build: Any, given: Any) -> Any:
    try:
        return build(given)
    except (ValueError, TypeError) as error:
        raise ValueError(f"plan: {error}") from None


def _promised(key: str, number: Any) -> float:
    return argument.real("plan", f"promise {key!r}", number)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text}, which is not a number")


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"plan: {name} must be an object, got {value!r}.")
    return value


def _fields(name: str, document: dict[str, Any], expected: tuple[str, ...]) -> dict[str, Any]:
    missing = [key for key in expected if key not in document]
    if missing:
        raise ValueError(f"plan: {name} lacks the field {missing[0]!r}.")
    unknown = [key for key in document if key not in expected]
    if unknown:
        raise ValueError(f"plan: {name} has the unknown field {unknown[0]!r}.")
    return document
