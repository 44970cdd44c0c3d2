"""References to arguments as the command line writes them: for its messages, and for notes and reports."""

from __future__ import annotations

from shuffledp._core.errors import Argument

OPTIONS = {
    "categories=…": "--categories FILE",
    "ledger=None": "--no-ledger",
    "options=[…]": "--options FILE or options=[…]",
    "round_number": "--round",
    "round_number=…": "--round",
    "rules=Rules(clip=True)": "--clip",
    "rules=Rules(longer='sample')": "--longer sample",
    "rules=Rules(missing=…)": "--missing",
    "rules=Rules(separator=…)": "--separator",
    "user=…": "user (--user)",
}
"""The references that are more than an option of the argument's name, perhaps with its value."""


def write_option(argument: Argument) -> str:
    """Returns a reference to an argument as the command line writes it.

    >>> write_option(Argument("allow_weaker", "True")), write_option(Argument("rests_on", "'shuffler'"))
    ('--allow-weaker', '--rests-on shuffler')
    """
    if argument.command_line:
        return argument.command_line
    if str(argument) in OPTIONS:
        return OPTIONS[str(argument)]
    option = f"--{argument.name.replace('_', '-')}"
    return option if argument.value in ("", "True", "…") else f"{option} {argument.value.replace(chr(39), '')}"
