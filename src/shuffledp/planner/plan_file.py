"""A plan: what is collected from whom, by which mechanism, and what that promises; a small JSON file.

``Plan.save`` writes what ``Plan.load`` reads::

    {
     "format": "shuffledp plan", "version": 1,
     "task": "frequency",
     "mechanism": {"name": "krr", "epsilon": 4.0, "settings": {"options": 3}},
     "domain": {"categories": ["red", "green", "blue"]},
     "population": "visitors", "users": 100000, "rounds": 1,
     "epsilon": 1.0, "delta": 1e-08, "bound": "best",
     "promise": {"standard_error": 210.0}
    }

``epsilon`` and ``delta`` are the central target for all ``rounds`` together; the mechanism's ``epsilon`` is local.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from shuffledp import argument
from shuffledp.bounds.amplify import amplify, bound_names
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.curve import PrivacyCurve
from shuffledp.tasks import domain
from shuffledp.tasks.domain import Values

FORMAT, VERSION = "shuffledp plan", 1
FIELDS = (
    "format", "version", "task", "mechanism", "domain", "population", "users", "rounds", "epsilon", "delta", "bound",
    "promise",
)  # fmt: skip
KINDS = {
    "frequency": "options",
    "set-valued": "options",
    "mean": "numbers",
    "vector mean": "numbers",
    "key-value": "keys with numbers",
    "range queries": "options",
    "location": "places",
}
"""The kind of values that a task is about."""
SIZES = ("options", "keys")
"""Settings of a mechanism that must agree with the size of the domain."""


@dataclass(frozen=True)
class Plan:
    """One collection, ready to run."""

    task: str
    mechanism_name: str
    epsilon_local: float | None
    """None for mechanisms that have none: their messages are hidden by dummies only."""
    domain: Values
    users: int
    epsilon: float
    delta: float
    settings: Mapping[str, int | float | str] = field(default_factory=dict)
    bound: str = "best"
    population: str = "everyone"
    rounds: int = 1
    promise: Mapping[str, float] = field(default_factory=dict)
    """What the planner expects, by name: for instance ``standard_error``, in the unit of the estimate."""

    def __post_init__(self) -> None:
        for name in ("task", "mechanism_name", "bound", "population"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text.strip():
                raise TypeError(f"plan: {name.removesuffix('_name')} must be a text, got {text!r}.")
        object.__setattr__(self, "users", argument.count("plan", "users", self.users))
        object.__setattr__(self, "rounds", argument.count("plan", "rounds", self.rounds))
        object.__setattr__(self, "epsilon", argument.positive_finite("plan", "epsilon", self.epsilon))
        object.__setattr__(self, "delta", argument.open_probability("plan", "delta", self.delta))
        object.__setattr__(self, "settings", {key: text for key, text in self.settings.items() if text is not None})
        object.__setattr__(self, "promise", {key: _promised(key, number) for key, number in self.promise.items()})
        if self.bound not in bound_names():
            raise ValueError(f"plan: bound must be one of {', '.join(bound_names())}, got {self.bound!r}.")
        self._agree()

    def _agree(self) -> None:
        """The mechanism is one for this task, and as large as the domain, which is of the right kind."""
        mechanism = self.mechanism
        if mechanism.task != self.task:
            raise ValueError(
                f"plan: the task is {self.task!r}, but {self.mechanism_name} is a mechanism for {mechanism.task!r}."
            )
        wanted = KINDS.get(self.task, self.domain.kind)
        if self.domain.kind != wanted:
            raise ValueError(f"plan: the task {self.task!r} needs a domain of {wanted}, got {self.domain.kind}.")
        self._same_size(mechanism)

    def _same_size(self, mechanism: Mechanism) -> None:
        size, most = self.domain.size, getattr(mechanism, "options", math.inf)
        if size is not None and size > most:
            raise ValueError(f"plan: {self.mechanism_name} has room for {most} options, but the domain has {size}.")
        region = self.domain.document() if self.domain.kind == KINDS["location"] else {}
        for name, value in region.items():
            if mechanism.settings().get(name, value) != value:
                raise ValueError(f"plan: {self.mechanism_name} has another {name} than the domain.")
        for name in SIZES:
            size = mechanism.settings().get(name)
            if size is not None and self.domain.size != size:
                has = "numbers" if self.domain.size is None else f"{self.domain.size} options"
                raise ValueError(f"plan: {self.mechanism_name} has {name} = {size}, but the domain has {has}.")

    @cached_property
    def mechanism(self) -> Mechanism:
        """The local randomizer, built by the catalogue."""
        given = {name: value if isinstance(value, str) else repr(value) for name, value in self.settings.items()}
        try:
            return catalogue.build(self.mechanism_name, self.epsilon_local, given)
        except (ValueError, TypeError) as error:
            raise ValueError(f"plan: {error}") from None

    def curve(self, users: int) -> PrivacyCurve:
        """The privacy of one round in which this many users take part."""
        return amplify(self.mechanism, users, bound=self.bound)

    # --- the file ---------------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """What the file holds."""
        local = "inf" if self.epsilon_local == math.inf else self.epsilon_local
        return {
            "format": FORMAT,
            "version": VERSION,
            "task": self.task,
            "mechanism": {"name": self.mechanism_name, "epsilon": local, "settings": dict(self.settings)},
            "domain": self.domain.document(),
            "population": self.population,
            "users": self.users,
            "rounds": self.rounds,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "bound": self.bound,
            "promise": dict(self.promise),
        }

    def text(self) -> str:
        """The file's text."""
        return json.dumps(self.document(), ensure_ascii=False, allow_nan=False, indent=1) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file."""
        try:
            Path(path).write_text(self.text(), encoding="utf-8")
        except OSError as error:
            raise ValueError(f"plan: cannot write {os.fspath(path)}: {error.strerror}.") from None

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
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"plan: expected JSON, got: {error}.") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f'plan: expected a file with "format": "{FORMAT}", got something else.')
        if document.get("version") != VERSION:
            raise ValueError(f"plan: expected version {VERSION}, got {document.get('version')!r}.")
        optional = {"bound": "best", "population": "everyone", "rounds": 1, "promise": {}}
        fields = _fields("the plan", optional | document, FIELDS)
        chosen = _fields("mechanism", {"settings": {}, "epsilon": None} | _mapping("mechanism", fields["mechanism"]),
                         ("name", "epsilon", "settings"))  # fmt: skip
        local = chosen["epsilon"]
        return cls(
            task=fields["task"],
            mechanism_name=chosen["name"],
            epsilon_local=_local(local),
            settings=_mapping("settings", chosen["settings"]),
            domain=domain.parse(fields["domain"]),
            promise=_mapping("promise", fields["promise"]),
            **{name: fields[name] for name in ("users", "epsilon", "delta", "bound", "population", "rounds")},
        )


def _local(value: Any) -> float | None:
    if value is None or value == "inf":
        return None if value is None else math.inf
    return argument.real("plan", "the mechanism's epsilon", value)


def _promised(key: str, number: Any) -> float:
    return argument.real("plan", f"promise {key!r}", number)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"plan: {text} is not a number.")


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
