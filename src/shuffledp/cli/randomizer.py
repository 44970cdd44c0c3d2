"""How a command names its randomizer: a catalogue mechanism, a table, raw parameters, or any ε0-LDP one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.mechanisms import catalogue, visitor
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.approximate_ldp import ApproximateLDP
from shuffledp.privacy.number_file import read_numbers
from shuffledp.privacy.variation_ratio import VariationRatio


@dataclass(frozen=True)
class Choice:
    """The options as typed; None where not given."""

    command: str
    mechanism: str | None = None
    epsilon_local: float | None = None
    delta_local: float | None = None
    settings: tuple[str, ...] = ()
    table: Path | None = None
    p: float | None = None
    beta: float | None = None
    q: float | None = None
    q0: float | None = None
    q1: float | None = None
    q_common: float | None = None

    @classmethod
    def given(
        cls, command: str, *, mechanism: str | None = None, mechanism_file: Path | None = None, **rest: Any
    ) -> Choice:
        """From the options as parsed: a file with one mechanism says which one is meant."""
        if mechanism is None and mechanism_file is not None:
            names = list(visitor.load(mechanism_file))
            if len(names) > 1:
                raise ValueError(f"{command}: {mechanism_file.name} has {', '.join(names)}; add --mechanism NAME.")
            mechanism = names[0]
        return cls(command, mechanism, settings=tuple(rest.pop("set_", None) or ()), **rest)

    def build(self) -> Mechanism | VariationRatio | ApproximateLDP:
        """The randomizer, or a sentence that says what is missing or too much."""
        raw = ("p", "beta", "q", "q0", "q1", "q_common")
        if self.table is not None:
            self._alone("--table", "mechanism", "epsilon_local", "delta_local", *raw)
            if self.settings:
                raise ValueError(f"{self.command}: --table does not go with --set.")
            from shuffledp.mechanisms.given.from_table import FromTable

            return FromTable.from_csv(self.table)
        if self.mechanism is not None:
            self._alone("--mechanism", "delta_local", *raw)
            settings = with_tables(self.command, self.mechanism, settings_of(self.command, self.settings))
            return catalogue.build(self.mechanism, self.epsilon_local, settings)
        if self.settings:
            raise ValueError(f"{self.command}: --set needs --mechanism.")
        if self.epsilon_local is not None:
            self._alone("--epsilon-local without --mechanism", *raw)
            if self.delta_local:
                return ApproximateLDP(self.epsilon_local, self.delta_local)
            return VariationRatio.of_ldp(self.epsilon_local)
        if self.delta_local is not None:
            raise ValueError(f"{self.command}: --delta-local needs --epsilon-local.")
        return self._raw()

    def with_setting(self, name: str) -> Callable[[float], Mechanism | VariationRatio | ApproximateLDP]:
        """The randomizer as a function of its local ε or of one more setting."""
        if self.table is not None:
            raise ValueError(f"{self.command}: --table leaves only users or rounds to find; add --find.")
        if name == "epsilon":
            if self.epsilon_local is not None:
                raise ValueError(f"{self.command}: --epsilon-local is what is searched for; leave it out.")
            return lambda value: dataclasses.replace(self, epsilon_local=value).build()
        if name in settings_of(self.command, self.settings):
            raise ValueError(f"{self.command}: {name} is what is searched for; leave out --set {name}=….")
        return lambda value: dataclasses.replace(self, settings=(*self.settings, f"{name}={value!r}")).build()

    def _raw(self) -> VariationRatio:
        if self.p is None or self.beta is None:
            raise ValueError(f"{self.command}: give --mechanism, --table, --epsilon-local, or --p, --beta and --q.")
        if self.q is not None and self.q0 is None and self.q1 is None:
            return VariationRatio(self.p, self.beta, self.q, self.q_common)
        if self.q is None and self.q0 is not None and self.q1 is not None:
            return VariationRatio(self.p, self.beta, (self.q0, self.q1), self.q_common)
        raise ValueError(f"{self.command}: give either --q, or both --q0 and --q1.")

    def _alone(self, option: str, *others: str) -> None:
        extra = [f"--{name.replace('_', '-')}" for name in others if getattr(self, name) is not None]
        if extra:
            raise ValueError(f"{self.command}: {option} does not go with {', '.join(extra)}.")


def settings_of(command: str, texts: tuple[str, ...]) -> dict[str, str]:
    """The pairs of ``--set name=value``."""
    result: dict[str, str] = {}
    for text in texts:
        key, found, value = text.partition("=")
        if not found or not key or not value:
            raise ValueError(f"{command}: --set takes name=value, got {text!r}.")
        if key in result:
            raise ValueError(f"{command}: --set {key} must be given once, got it twice.")
        result[key] = value
    return result


def with_tables(command: str, mechanism: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The settings, with the rows of its file in the place of a table's name."""
    name = catalogue.kind_of(mechanism).built_from_table
    return {key: read_numbers(command, text) if key == name else text for key, text in settings.items()}


def number_or_list(command: str, option: str, text: str) -> Any:
    """One input of a mechanism as typed: a number, or a JSON list."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float | list):
        raise ValueError(f"{command}: {option} must be a number or a JSON list, got {text!r}.")
    return value
