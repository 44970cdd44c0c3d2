"""The command line: parse, call, format; no formulas."""


def main() -> None:
    """Entry point of ``shuffledp`` and ``python -m shuffledp``."""
    from shuffledp.cli.app import run

    run()
