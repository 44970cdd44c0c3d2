"""The randomizer that a claim is about: in words that can be read back, and built again from them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from shuffledp.certificate import field
from shuffledp.certificate.written_law import classes_text
from shuffledp.mechanisms import catalogue, visitor
from shuffledp.mechanisms.given.from_table import FromTable
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.privacy.randomizer import Randomizer
from shuffledp.privacy.variation_ratio import VariationRatio

PARAMETERS = ("p", "beta", "q0", "q1", "q_common")
MOST_USERS = 10**15


class Stranger(Exception):
    """The claim is about a class that is not the one known here by that name."""


# --- written ------------------------------------------------------------------------------------------------------


def described(randomizer: Randomizer) -> dict[str, Any]:
    """The randomizer in words that can be read back; a sentence if that cannot be done."""
    words = _words(randomizer)
    if "origin" in words:
        _demand_same_law(randomizer, build(words))
    return words


def _words(randomizer: Randomizer) -> dict[str, Any]:
    if isinstance(randomizer, VariationRatio):
        named = randomizer.describe()
        return {"parameters": _parameters(named)}
    if type(randomizer) is FromTable:
        return {"table": randomizer.matrix.tolist()}
    if isinstance(randomizer, Mechanism):
        settings = randomizer.settings()
        found: dict[str, Any] = {"mechanism": randomizer.name}
        if "epsilon" in settings:
            found["epsilon"] = settings.pop("epsilon")
        found["settings"] = settings
        origin = visitor.origin(type(randomizer))
        if origin is not None:
            found["origin"] = origin
        try:
            if json.loads(json.dumps(found)) == found and type(build(found)) is type(randomizer):
                return found
        except (TypeError, ValueError):
            pass
    raise ValueError(f"certificate: expected a randomizer that can be written down, got {type(randomizer).__name__}.")


def _parameters(named: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers, infinity as a text: JSON has none."""
    numbers = {name: field.number(name, number) for name, number in named.items()}
    return {name: "inf" if math.isinf(number) else number for name, number in numbers.items()}


def _demand_same_law(randomizer: Randomizer, again: Randomizer) -> None:
    """Refuse somebody else's mechanism that its settings do not build again: nobody could prove the claim."""
    pairs, rebuilt = randomizer.blankets(), again.blankets()
    same = randomizer.variation_ratio() == again.variation_ratio() and len(pairs) == len(rebuilt)
    if not same or any(classes_text(one) != classes_text(other) for one, other in zip(pairs, rebuilt, strict=True)):
        raise ValueError(
            f"certificate: built again from its settings, {type(randomizer).__name__} has another law; its settings() "
            f"must be what its constructor was given."
        )


def short(words: Mapping[str, Any]) -> str:
    """The randomizer on one line."""
    if "table" in words:
        rows = words["table"]
        return f"a table of {len(rows)} inputs and {len(rows[0])} messages"
    named = dict(words.get("parameters") or words["settings"])
    if "epsilon" in words:
        named = {"epsilon": words["epsilon"], **named}
    if "local" in words:
        named["local"] = words["local"]
    return f"{words.get('mechanism', 'parameters')}: {', '.join(f'{name} = {text}' for name, text in named.items())}"


# --- read ---------------------------------------------------------------------------------------------------------


def read_words(value: Any) -> dict[str, Any]:
    """The words of a file, each field there and of its kind."""
    if not isinstance(value, dict):
        raise field.bad("randomizer must be an object")
    if "parameters" in value:
        both_ways = {"local": field.true("local", value["local"])} if "local" in value else {}
        fields = field.object_of("randomizer", value, ("parameters", *both_ways))
        named = field.object_of("parameters", fields["parameters"], PARAMETERS)
        return {"parameters": _parameters(named), **both_ways}
    if "table" in value:
        rows = field.list_of("table", field.object_of("randomizer", value, ("table",))["table"])
        return {"table": [[field.number("table", number) for number in field.list_of("table", row)] for row in rows]}
    kind = catalogue.find(str(value.get("mechanism")))
    # Of a name that is not known here, build says so.
    takes_epsilon = "epsilon" in value if kind is None else catalogue.takes_epsilon(kind)
    local = ("epsilon",) if takes_epsilon else ()
    whose = {"origin": field.text("origin", value["origin"])} if "origin" in value else {}
    fields = field.object_of("randomizer", value, ("mechanism", *local, "settings", *whose))
    if not isinstance(fields["settings"], dict):
        raise field.bad("settings must be an object")
    settings = {name: _setting(name, number) for name, number in fields["settings"].items()}
    name = field.text("mechanism", fields["mechanism"])
    return {"mechanism": name, **{key: field.number(key, fields[key]) for key in local}, "settings": settings, **whose}


def _setting(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, list):
        return [[field.number(name, number) for number in field.list_of(name, row)] for row in value]
    return field.number(name, value)


# --- built again --------------------------------------------------------------------------------------------------


def build(words: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a description, or a sentence."""
    if "table" in words:
        return FromTable(words["table"])
    name = words["mechanism"]
    kind = catalogue.find(name)
    if kind is None:
        names = ", ".join([*catalogue.all_mechanisms(), *visitor.names()])
        raise ValueError(f"certificate: mechanism must be one of {names}, got {name!r}.")
    known = {one.name for one in catalogue.settings(kind)}
    for key in words["settings"]:
        if key not in known:
            raise ValueError(f"certificate: {name} has no setting {key!r}.")
    try:
        return catalogue.construct(kind, words.get("epsilon"), words["settings"])
    except TypeError as error:
        raise ValueError(f"certificate: {name}: {error}.") from None


def claimed_mechanism(words: Mapping[str, Any]) -> tuple[Mechanism, str]:
    """The mechanism that is claimed about, and a remark where it is not this package's.

    ``Stranger`` where the class of that name here is not the claimed one.
    """
    mechanism = build(words)
    here, claimed = visitor.origin(type(mechanism)), words.get("origin")
    if here == claimed:
        return mechanism, "" if here is None else f", both as stated by {here}, which is not of shuffledp"
    ours = "shuffledp"
    raise Stranger(
        f"the claim is about {words['mechanism']!r} of {claimed or ours}, "
        f"and the one of that name here is of {here or ours}."
    )


def messages_of(randomizer: Randomizer, users: int) -> int:
    """How many messages hide each other, not more than are looked at."""
    messages = randomizer.hiding_messages(users)
    if messages > MOST_USERS:
        raise ValueError(f"certificate: expected at most {MOST_USERS} messages that hide each other, got {messages}.")
    return messages
