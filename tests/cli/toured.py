"""The tour, which is ``shuffledp`` without arguments, taken once for all tests that look at it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests import shared
from tests.cli import Outcome, run


def toured(shared_folder: Path) -> tuple[Path, Outcome]:
    """The folder, empty before, in which it was taken; and what it left behind."""

    def tour() -> tuple[Path, Outcome]:
        folder = Path(tempfile.mkdtemp(dir=shared_folder))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            return folder, run()

    return shared.once(shared_folder / "tour", tour)
