"""Noise that users draw in different numbers of messages, or that the shuffler draws: collected on both engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shuffledp import CancellingNoise, Plan, amplify, collection
from shuffledp._core.errors import GuaranteeTooWeak
from shuffledp.collection.collect import CollectionRequest, collect, run_collection
from shuffledp.collection.engine import Engine
from shuffledp.collection.input.tables import open_input
from shuffledp.collection.message_files import EncodedFile, Manifest
from shuffledp.storage import durable_files
from shuffledp.tasks import Frequency
from tests.collection import new_ledger, read_encoded_file, read_messages, write_table

# A few plans, each on both engines and by all roles.
pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

USERS = 3000


@cache
def plan_with(honest: int, options: int = 7, **settings: int) -> Plan:
    shape = 25.0 if options < 100 else 2.0
    mechanism = CancellingNoise(options, rate=0.6, shape=shape, ratio=0.8, honest=honest, **settings)
    delta = 1e-5 if options < 100 else 0.1
    epsilon = amplify(mechanism, USERS, effort="quick").epsilon(delta).upper
    return Plan(Frequency(options), mechanism, users=USERS, epsilon=epsilon * 1.0001, delta=delta)


def values(options: int = 7) -> pa.Array:
    return pa.array(np.arange(USERS) ** 2 % options)


def truth(options: int = 7) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.bincount(np.arange(USERS) ** 2 % options, minlength=options)


@pytest.mark.exhaustive("embedded-40000")
@pytest.mark.parametrize("honest", [0, USERS])
@pytest.mark.parametrize("options", [7, 40_000])
def test_a_collection(engine: Engine, honest: int, options: int, tmp_path: Path) -> None:
    """The shuffler's own messages are among them."""
    plan = plan_with(honest, options)
    path = write_table(tmp_path / "data.parquet", value=values(options))
    report = run_collection(CollectionRequest(plan, open_input(path, "value"), ("value",), tmp_path / "out"), engine)
    assert report.guarantee.is_target_met
    assert report.guarantee.users == USERS
    error = report.estimate.value - truth(options)
    assert np.sqrt(np.mean(error**2)) < 3 * report.estimate.standard_error[0]
    manifest = Manifest.read(tmp_path / "out" / "messages")
    assert manifest.noise == ("users" if honest else "shuffler")
    assert manifest.messages > USERS
    assert manifest.users == USERS
    told = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert ("which drew the noise" in told) == (honest == 0)
    assert f"| noise is drawn by | the {'users' if honest else 'shuffler'} |" in told


def handed_over(plan: Plan, directory: Path, name: str) -> list[Path]:
    """By two encoders, each with half of the people."""
    halves = [values()[: USERS // 2], values()[USERS // 2 :]]
    files = [directory / f"{name}{number}.messages" for number in range(2)]
    for half, file in zip(halves, files, strict=True):
        collection.encode(plan, half, out=file)
    return files


@pytest.mark.parametrize("keeps", [True, False])
def test_noise_is_drawn_once(keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn again for the same messages it averages out; a run that was killed hands on what it had drawn."""
    plan, ledger = plan_with(0), new_ledger(tmp_path / "ledger.sqlite", "everyone")
    files = handed_over(plan, tmp_path, "ours")
    kept = ledger.path if keeps else None
    with monkeypatch.context() as killed:
        killed.setattr(durable_files, "rename", killed_before_its_name(tmp_path / "shuffled"))
        with pytest.raises(KeyboardInterrupt):
            collection.shuffle(files, out=tmp_path / "shuffled", plan=plan, ledger=kept)
    assert not (tmp_path / "shuffled").exists()
    drawn = read_messages(tmp_path / "shuffled.ready", 1)
    with pytest.raises(ValueError, match="was left by a killed run of other files"):
        collection.shuffle(files[:1], out=tmp_path / "shuffled", plan=plan, ledger=kept, allow_weaker=True)
    collection.shuffle(files, out=tmp_path / "shuffled", plan=plan, ledger=kept)
    assert read_messages(tmp_path / "shuffled", 1) == drawn
    assert not (tmp_path / "shuffled.ready").exists()
    with pytest.raises(ValueError, match=r"with other noise; use that (release|result)\.$"):
        collection.shuffle(files, out=tmp_path / "again", plan=plan, ledger=kept)
    assert not list(tmp_path.glob("again*"))
    assert len(ledger.budget_statuses("everyone")[0].entries) == keeps


def killed_before_its_name(out: Path) -> Callable[[Path, Path], None]:
    rename = durable_files.rename

    def renamed(source: Path, target: Path) -> None:
        if target == out:
            raise KeyboardInterrupt
        rename(source, target)

    return renamed


@pytest.mark.parametrize("honest", [0, USERS])
def test_three_roles(honest: int, tmp_path: Path) -> None:
    """The encoder's manifest says how many users there are; the shuffler really draws, afresh for other files."""
    plan = plan_with(honest)
    files, others = handed_over(plan, tmp_path, "ours"), handed_over(plan, tmp_path, "others")
    assert sum(EncodedFile.open(file).users for file in files) == USERS
    sent = sum(EncodedFile.open(file).messages for file in files)
    assert (sent == USERS) == (honest == 0)
    found = [
        collection.shuffle(given, out=tmp_path / f"shuffled{k}", plan=plan) for k, given in enumerate((files, others))
    ]
    if honest:
        assert found == [sent, sum(EncodedFile.open(file).messages for file in others)]
    else:
        assert min(found) > sent
        drawn = [len(set(read_messages(tmp_path / f"shuffled{k}", 1))) for k in range(2)]
        assert max(drawn) > 7
        assert read_messages(tmp_path / "shuffled0", 1) != read_messages(tmp_path / "shuffled1", 1)
    report = collection.estimate(plan, tmp_path / "shuffled0", out=tmp_path / "out")
    assert report.guarantee.users == USERS
    assert np.abs(report.estimate.value - truth()).max() < 8 * report.estimate.standard_error[0]
    assert report.document()["counts"] == {"messages": found[0], "refused": 0, "missing": 0}


def test_noise_is_not_forgotten(tmp_path: Path) -> None:
    """A shuffler without the plan cannot draw it, and messages without it are not estimated from."""
    plan = plan_with(0)
    ours = tmp_path / "ours.messages"
    collection.encode(plan, values(), out=ours)
    with pytest.raises(ValueError, match="the shuffler draws the noise of this plan; give the plan with plan"):
        collection.shuffle([ours], out=tmp_path / "shuffled")
    assert not (tmp_path / "shuffled").exists()
    collection.shuffle([ours], out=tmp_path / "shuffled", plan=plan)
    path = tmp_path / "shuffled" / "_manifest.json"
    told = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(told | {"noise": "users"}), "utf-8")
    with pytest.raises(ValueError, match=r"the plan has noise of the shuffler, which .* lacks"):
        collection.estimate(plan, tmp_path / "shuffled", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_fewer_users_than_the_noise_needs(tmp_path: Path) -> None:
    """One sentence, and nothing encoded; by the shuffler any number will do."""
    few = values()[:2000]
    with pytest.raises(GuaranteeTooWeak, match="2000 users took part where 3000 were planned"):
        collect(plan_with(USERS), few, out=tmp_path / "weak")
    assert not (tmp_path / "weak").exists()
    report = collect(plan_with(0), few, out=tmp_path / "strong")
    assert report.guarantee.is_target_met


def test_padded_reports_are_collected(tmp_path: Path) -> None:
    plan = plan_with(USERS, places=300)
    report = collect(plan, values(), out=tmp_path / "out")
    assert report.guarantee.is_target_met
    assert Manifest.read(tmp_path / "out" / "messages").messages == 300 * USERS


def test_the_same_key_gives_the_same_noise(tmp_path: Path) -> None:
    """A collection that goes on after a kill must not draw twice."""
    from shuffledp.collection import batch_processing

    mechanism, key = plan_with(0).mechanism, bytes(range(32))
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        batch_processing.add_noise(mechanism, key, tmp_path / name)
    first, second = (read_messages(tmp_path / name, 1) for name in ("first", "second"))
    assert first == second
    assert len(first) > 100
    batch_processing.add_noise(mechanism, bytes(32), tmp_path / "first")
    assert read_messages(tmp_path / "first", 1) == first


def test_an_encoder_hides_whose_noise_it_is(tmp_path: Path) -> None:
    """A bundle's messages are in order of their bytes, batch by batch: no user's own message stands out."""
    ours = tmp_path / "ours.messages"
    collection.encode(plan_with(USERS), values(), out=ours)
    assert read_encoded_file(ours) == sorted(read_encoded_file(ours))
