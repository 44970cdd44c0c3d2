"""The page about Spark: its program runs, and what it says of the code is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shuffledp.spark import frame_table
from shuffledp.spark.deterministic_rows import BUCKET_COUNT

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")


@pytest.mark.docs
@pytest.mark.spark
def test_the_program_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands there."""
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(program, {})
    assert "2,000" in capsys.readouterr().out
    assert (tmp_path / "result" / "report.json").exists()


def test_what_the_page_names_is_there() -> None:
    """The number of buckets, and the kinds of inputs."""
    assert f"into {BUCKET_COUNT} buckets" in PAGE
    for example in re.findall(r"`((?:table|delta|iceberg|hdfs|s3a):[^`]*)`", PAGE):
        assert frame_table.is_for_spark(example), example
