"""The front door under mypy, under pyright and in an editor's completion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jedi
import pytest

import shuffledp as sdp
from shuffledp.mechanisms.catalogue import all_mechanisms

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
API = HERE / "api.py"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that share the editor's cache read files that the other one is writing."""
    place = tmp_path_factory.getbasetemp() / "jedi"
    monkeypatch.setattr(jedi.settings, "cache_directory", str(place))


@pytest.mark.exhaustive
def test_mypy_accepts_what_is_right_and_nothing_else() -> None:
    """--strict counts an ignore comment on a line without an error as an error."""
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(API)],
        capture_output=True, text=True, cwd=ROOT, timeout=600, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.exhaustive
def test_pyright_accepts_what_is_right_and_nothing_else(tmp_path: Path) -> None:
    """The same by another checker, with comments of its own."""
    settings = {
        "include": [str(API)],
        "extraPaths": [str(Path(sdp.__file__).parents[1])],
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
        "reportUnusedExpression": "none",
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = ["-m", "basedpyright", "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600, check=False)
    report = json.loads(done.stdout)
    assert [problem["message"] for problem in report["generalDiagnostics"]] == []
    assert report["summary"]["filesAnalyzed"] == 1


@pytest.mark.exhaustive
def test_an_editor_completes_every_mechanism() -> None:
    """After "sdp." all mechanisms are offered."""
    script = jedi.Script("import shuffledp as sdp\nsdp.", project=jedi.Project(ROOT))
    offered = {completion.name for completion in script.complete(2, 4)}
    missing = {kind.__name__ for kind in all_mechanisms().values()} - offered
    assert missing == set()
    assert {"amplify", "plan", "collect", "tasks", "testing"} <= offered


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["KRR", "Subset", "PrivUnit", "MixDUMP"])
def test_an_editor_shows_a_mechanisms_signature(name: str) -> None:
    """The constructor's own arguments, by name."""
    kind = getattr(sdp, name)
    text = f"import shuffledp as sdp\nsdp.{name}("
    (signature,) = jedi.Script(text, project=jedi.Project(ROOT)).get_signatures(2, len(text.splitlines()[1]))
    wanted = [field for field in kind.__dataclass_fields__.values() if field.init]
    assert [parameter.name for parameter in signature.params] == [field.name for field in wanted]
