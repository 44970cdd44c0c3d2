"""The command line: parses options, calls the package and formats the results; it contains no formulas.

The parser, tables and figures need optional dependencies; if one is missing, an error names the extra to install.
"""

import sys
from importlib import import_module

from shuffledp._core.errors import install_hint

MISSING_PACKAGE_MESSAGES = {
    "typer": f"the command line needs typer and rich; {install_hint('cli')}.",
    "rich": f"the command line needs typer and rich; {install_hint('cli')}.",
    "pyarrow": f"collections need pyarrow; {install_hint('collect')}.",
    "starlette": f"a shuffler that listens, or the page, needs starlette and uvicorn; {install_hint('web')}.",
    "uvicorn": f"a shuffler that listens, or the page, needs starlette and uvicorn; {install_hint('web')}.",
    "matplotlib": f"figures need matplotlib; {install_hint('plot')}.",
}
"""Error message for each optional module that is not installed."""


def main() -> None:
    """Entry point of ``shuffledp`` and ``python -m shuffledp``."""
    try:
        # Nearly every command prints tables, so a missing rich is reported by all of them alike.
        import_module("rich")
        from shuffledp.cli.app import run

        run()
    except ModuleNotFoundError as error:
        sentence = MISSING_PACKAGE_MESSAGES.get((error.name or "").partition(".")[0])
        if sentence is None:
            raise
        print(f"shuffledp: {sentence}", file=sys.stderr)
        sys.exit(2)
