"""An option that takes one value is taken once: a second one would silently replace the first."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup
from typer.exceptions import TyperException


class OnceEach(TyperGroup):
    """A group of commands none of which drops a value that was typed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is meant, if no option of it is there twice that is there once."""
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, TyperGroup):
            _demand_once(str(name), command, ctx, rest)
        return name, command, rest


def _demand_once(name: str, command: Any, ctx: Any, args: list[str]) -> None:
    parser = command.make_parser(ctx)
    # The group's own options end with the first word that is none.
    parser.allow_interspersed_args = command.allow_interspersed_args
    try:
        _, _, order = parser.parse_args(list(args))
    except TyperException:
        # What cannot be parsed is complained about where it is.
        return
    seen = set()
    for parameter in order:
        single = parameter.param_type_name == "option" and not (parameter.multiple or parameter.count)
        if single and parameter.name in seen:
            raise ValueError(f"{name}: {parameter.opts[0]} was given twice, and takes one value; give it once.")
        seen.add(parameter.name)
