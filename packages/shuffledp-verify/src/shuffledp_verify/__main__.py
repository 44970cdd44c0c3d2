"""The command ``shuffledp-verify``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from shuffledp_verify import Verdict, __version__, read_claim, verify

EXIT_CODES = {Verdict.YES: 0, Verdict.NO: 1, Verdict.OPEN: 3}
BAD_FILE_EXIT_CODE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Decides a claim file and prints the verdict.

    Args:
        arguments: Command-line arguments; by default those of this process.

    Returns:
        The exit code: 0 for yes, 1 for no, 3 for cannot decide, 2 for a file that is not a claim.
    """
    parser = argparse.ArgumentParser(
        prog="shuffledp-verify",
        description="Prove the privacy claim of a file again. Exit code 0: yes, 1: no, 3: cannot decide, 2: no claim.",
    )
    parser.add_argument("file", help="a claim, from `shuffledp amplify --certificate`")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    parser.add_argument("--version", action="version", version=__version__)
    options = parser.parse_args(arguments)
    try:
        claim = read_claim(options.file)
        finding = verify(claim)
    except ValueError as error:
        print(f"shuffledp-verify: {error}", file=sys.stderr)
        return BAD_FILE_EXIT_CODE
    if options.json:
        fields = {"verdict": finding.verdict.value, "reason": finding.reason, "method": finding.method}
        print(json.dumps(fields, ensure_ascii=False))
    else:
        print(f"{finding.verdict.value}: {finding.reason}")
        print(f"  claim   {claim.statement}")
        print(f"  bound   {claim.bound}: {claim.theorem}")
        print(f"  method  {finding.method}")
    return EXIT_CODES[finding.verdict]


if __name__ == "__main__":
    sys.exit(main())
