"""The command line: parse, call, format; no formulas.

Its parser, tables and figures are extras of the package: where one is missing the user is told which to install.
"""

import sys

EXTRAS = {
    "typer": "the command line needs typer and rich; install shuffledp[cli].",
    "rich": "the command line needs typer and rich; install shuffledp[cli].",
    "pyarrow": "collections need pyarrow; install shuffledp[collect].",
    "matplotlib": "figures need matplotlib; install shuffledp[plot].",
}
"""What to say where a module is not installed."""


def main() -> None:
    """Entry point of ``shuffledp`` and ``python -m shuffledp``."""
    try:
        from shuffledp.cli.app import run

        run()
    except ModuleNotFoundError as error:
        sentence = EXTRAS.get((error.name or "").partition(".")[0])
        if sentence is None:
            raise
        print(f"shuffledp: {sentence}", file=sys.stderr)
        sys.exit(2)
