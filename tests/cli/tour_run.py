"""The tour, which is ``shuffledp`` without arguments, taken once for all tests that look at it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests import shared_results
from tests.cli import CommandResult, run


def toured(shared_folder: Path) -> tuple[Path, CommandResult]:
    """The folder, empty before, in which it was taken; and what it left behind."""

    def tour() -> tuple[Path, CommandResult]:
        folder = Path(tempfile.mkdtemp(dir=shared_folder))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            return folder, run()

    return shared_results.compute_once(shared_folder / "tour", tour)
