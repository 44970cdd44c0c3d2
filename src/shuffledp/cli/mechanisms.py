"""``shuffledp mechanisms``: the catalogue of randomizers."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from shuffledp._core import validation
from shuffledp._core.citations import find_citations
from shuffledp._core.formatting import format_json
from shuffledp.cli import options, output
from shuffledp.cli.output import Console
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.tasks import registry

_SETTING_PATTERN = re.compile(r"(``\w+``(?:, ``\w+``)*): ")
_ARGUMENT_PATTERN = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_SKIPPED_SECTIONS = ("Raises:", "Example:", "Examples:")
_DOCSTRING_SECTIONS = ("Theorem:", "Requires:", "Returns:", "Deviates:", "Privacy:")


def mechanisms_command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A mechanism, by any of its names.")] = None,
    task: Annotated[str | None, typer.Option(help="Only mechanisms for this task, by its name in `plan`.")] = None,
    json: options.Json = False,
) -> None:
    """List every randomizer with its task and settings; with NAME, describe one."""
    if name is not None:
        if task is not None:
            raise ValueError("mechanisms: give NAME or --task, not both.")
        _print_mechanism(_find_mechanism(name), json)
        return
    kinds = catalogue.all_mechanisms()
    if task is not None:
        with validation.relabel_errors("mechanisms", "plan"):
            selected_task = registry.find_by_command_name(task)
        kinds = {known: kind for known, kind in kinds.items() if selected_task.can_use(kind)}
    if json:
        typer.echo(format_json({"mechanisms": [_mechanism_document(kind) for kind in kinds.values()]}))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "task", "settings", "messages" if task is None else "use case"):
        table.add_column(column, overflow="fold")
    for kind in kinds.values():
        table.add_row(
            kind.name, kind.task, Text(_format_settings(kind)), kind.summary if task is None else kind.use_case
        )
    Console().print(table)
    output.print_text("\nSettings in [brackets] have a default. Details of one: shuffledp mechanisms NAME.")
    if task is None:
        _print_examples(kinds)


def _print_examples(kinds: dict[str, type[Mechanism]]) -> None:
    """Prints examples of commands that use mechanisms of the catalogue."""
    output.print_text("Every mechanism with a local ε guarantees it exactly:")
    output.print_text(
        "  shuffledp amplify --mechanism krr --epsilon-local 2 --set options=128 --users 1e5 --delta 1e-8"
    )
    without = [kind.name for kind in kinds.values() if kind.has_numeric_settings and not catalogue.takes_epsilon(kind)]
    output.print_text(
        f"\nWithout a local ε, because every user's dummies hide everybody: {', '.join(without)}. For example:"
    )
    output.print_text(
        "  shuffledp amplify --mechanism pure-dump --set options=128 --set dummies=5 --users 1e5 --delta 1e-8"
    )
    output.print_text(
        "\nAround another one, with its name after theirs: compressed- (a seed of the message), repeated- (runs at"
    )
    output.print_text("a part of ε each; ε is that of one run). For example, two seeds that keep local ε = 8 together:")
    output.print_text(
        "  shuffledp amplify --mechanism repeated-compressed-privunit-g --epsilon-local 4 --set runs=2 \\"
    )
    output.print_text("    --set dimension=1024 --users 1e5 --delta 1e-8")


def _find_mechanism(name: str) -> type[Mechanism]:
    kind = catalogue.find(name)
    if kind is None:
        raise catalogue.unknown_name_error(name)
    return kind


# --- One mechanism ---


def _print_mechanism(kind: type[Mechanism], json: bool) -> None:
    if json:
        typer.echo(format_json(_mechanism_document(kind)))
        return
    about, settings, fields = _parse_docstring(kind)
    rows = [
        ("messages", kind.summary),
        ("use case", kind.use_case),
        ("task", kind.task),
        ("also called", ", ".join(vars(kind).get("aliases", ()))),
        ("in Python", f"shuffledp.{kind.__name__}"),
        ("local ε", "yes, kept by every message" if catalogue.takes_epsilon(kind) else "none to set"),
        *((f"setting {field.name}", _describe_setting(field, settings)) for field in catalogue.settings_fields(kind)),
        *fields.items(),
        ("papers", "; ".join(find_citations(" ".join(fields.values())))),
    ]
    output.print_rows(kind.name, [(name, text) for name, text in rows if text])
    if about:
        Console().print(Text(f"\n{about}"))


def _describe_setting(field: dataclasses.Field[Any], settings: dict[str, str]) -> str:
    """Returns the meaning of a setting and its default."""
    default = "" if not catalogue.has_default(field) else f" (default: {field.default})"
    return f"{settings.get(field.name, '')}{default}".strip()


def _parse_docstring(kind: type[Mechanism]) -> tuple[str, dict[str, str], dict[str, str]]:
    """Splits a mechanism's docstring into description, meaning of each setting, and sections such as Theorem."""
    text = inspect.getdoc(kind) or ""
    settings: dict[str, str] = {}
    fields: dict[str, str] = {}
    about = []
    for block in text.split(">>>")[0].strip().split("\n\n"):
        part = block.replace("\n", " ")
        if block.startswith("Args:"):
            settings |= {
                name: _strip_backticks(" ".join(meaning.split())) for name, meaning in _ARGUMENT_PATTERN.findall(block)
            }
        elif part.startswith(_DOCSTRING_SECTIONS):
            fields |= _parse_sections(part)
        elif _SETTING_PATTERN.match(part):
            settings |= _parse_setting_meanings(part)
        elif not part.startswith(_SKIPPED_SECTIONS):
            about.append(_strip_backticks(part))
    return "\n\n".join(about), settings, fields


def _parse_sections(part: str) -> dict[str, str]:
    """Returns the text of each section, such as Theorem and Requires."""
    pieces = re.split(rf"({'|'.join(_DOCSTRING_SECTIONS)}) ", part)[1:]
    return {
        name.rstrip(":").lower(): _strip_backticks(text.strip())
        for name, text in zip(pieces[::2], pieces[1::2], strict=True)
    }


def _parse_setting_meanings(part: str) -> dict[str, str]:
    """Returns the meaning of each setting that a paragraph describes."""
    pieces = _SETTING_PATTERN.split(part)[1:]
    found: dict[str, str] = {}
    for names, text in zip(pieces[::2], pieces[1::2], strict=True):
        found |= {name: _strip_backticks(text.strip()) for name in _strip_backticks(names).split(", ")}
    return found


def _strip_backticks(text: str) -> str:
    return text.replace("`", "")


# --- The whole catalogue ---


def _format_settings(kind: type[Mechanism]) -> str:
    if not catalogue.is_buildable_by_name(kind):
        return "in Python"
    return ", ".join(_format_setting(field, kind) for field in catalogue.settings_fields(kind))


def _format_setting(field: dataclasses.Field[Any], kind: type[Mechanism]) -> str:
    if field.name == kind.table_setting:
        return f"{field.name} (a CSV file)"
    return f"[{field.name}]" if catalogue.has_default(field) else field.name


def _mechanism_document(kind: type[Mechanism]) -> dict[str, Any]:
    _, meanings, _ = _parse_docstring(kind)
    return {
        "name": kind.name,
        "also_called": list(vars(kind).get("aliases", ())),
        "class": kind.__name__,
        "task": kind.task,
        "summary": kind.summary,
        "take_it": kind.use_case,
        "local_epsilon": catalogue.takes_epsilon(kind),
        "by_name": catalogue.is_buildable_by_name(kind),
        "settings": [
            {
                "name": field.name,
                "type": str(field.type),
                "required": not catalogue.has_default(field),
                "meaning": meanings.get(field.name, ""),
            }
            for field in catalogue.settings_fields(kind)
        ],
    }
