"""The command line: parse, call, format; no formulas.

Its parser, tables and figures are extras of the package: where one is missing the user is told which to install.
"""

import sys
from importlib import import_module

from shuffledp.errors import installing

EXTRAS = {
    "typer": f"the command line needs typer and rich; {installing('cli')}.",
    "rich": f"the command line needs typer and rich; {installing('cli')}.",
    "pyarrow": f"collections need pyarrow; {installing('collect')}.",
    "starlette": f"a shuffler that listens, or the page, needs starlette and uvicorn; {installing('web')}.",
    "uvicorn": f"a shuffler that listens, or the page, needs starlette and uvicorn; {installing('web')}.",
    "matplotlib": f"figures need matplotlib; {installing('plot')}.",
}
"""What to say where a module is not installed."""


def main() -> None:
    """Entry point of ``shuffledp`` and ``python -m shuffledp``."""
    try:
        # Most commands show tables: whether they can is said whatever is asked.
        import_module("rich")
        from shuffledp.cli.app import run

        run()
    except ModuleNotFoundError as error:
        sentence = EXTRAS.get((error.name or "").partition(".")[0])
        if sentence is None:
            raise
        print(f"shuffledp: {sentence}", file=sys.stderr)
        sys.exit(2)
