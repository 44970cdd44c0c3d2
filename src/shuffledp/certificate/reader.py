"""A certificate as it is read: strict JSON, every field there and of its kind, nothing else believed."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from shuffledp.certificate import field
from shuffledp.certificate.claim import FORMAT, LARGEST_EPSILON, SOFTWARE, VERSION, Claim
from shuffledp.certificate.evidence import Backing
from shuffledp.certificate.kinds import kind_of
from shuffledp.certificate.rounds import Rounds
from shuffledp.certificate.wording import MOST_USERS, read_words

BEFORE = (
    "format", "version", "statement", "epsilon", "delta", "users", "randomizer", "bound", "theorem", "guarantee",
    "rounding",
)  # fmt: skip
"""The fields of every claim; those of its evidence follow, and then the software."""


def read(path: str | PathLike[str]) -> Claim:
    """The claim of a file."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"verify: cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"verify: {path} is not text.") from None


def parse(text: str) -> Claim:
    """The claim of a file; one sentence if anything is missing, unknown or of the wrong kind."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except (json.JSONDecodeError, RecursionError) as error:
        raise field.bad(f"expected JSON, got: {error}") from None
    if not isinstance(document, dict):
        raise field.bad("the certificate must be an object")
    kind: type[Backing] = Rounds if Rounds.recognises(document) else kind_of(document)
    own = kind.own_fields(document)
    fields = field.object_of("the certificate", document, (*BEFORE, *own, "software"))
    if fields["format"] != FORMAT or fields["version"] != VERSION or isinstance(fields["version"], bool):
        raise field.bad(
            f"expected {FORMAT!r} version {VERSION}, got {fields['format']!r} version {fields['version']!r}"
        )
    if fields["guarantee"] is not True:
        raise field.bad(f"guarantee must be true, got {fields['guarantee']!r}")
    if fields["rounding"] != kind.rounding:
        raise field.bad("rounding is not the text of this version")
    versions = field.object_of("software", fields["software"], SOFTWARE)
    claim = Claim(
        read_words(fields["randomizer"]),
        field.integer("users", fields["users"], 1, MOST_USERS),
        field.between("epsilon", fields["epsilon"], LARGEST_EPSILON),
        field.between("delta", fields["delta"], 1),
        field.text("bound", fields["bound"]),
        field.text("theorem", fields["theorem"]),
        {name: field.text(name, said) for name, said in versions.items()},
        kind.read(fields),
    )
    if fields["statement"] != claim.statement:
        raise field.bad("the statement does not say what the numbers say")
    return claim


def _refuse_constant(text: str) -> Any:
    raise field.bad(f"{text} is not a number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise field.bad("a field stands twice")
    return result
