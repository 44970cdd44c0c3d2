"""A thousand damaged plans, certificates, bundles and shuffled directories: a sentence, or what it was before."""

from __future__ import annotations

import json
import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp import collection
from shuffledp._core.errors import ShuffledpError
from shuffledp.certificates.claim import verify
from shuffledp.collection.message_files import Manifest
from shuffledp.mechanisms.base.message_plan import SingleMessage
from shuffledp.planning.plan import Plan
from tests.collection import random_column, read_encoded_file, read_messages, small_plan
from tests.collection.damaged_tables import duplicate, flip, overwrite, remove, truncate

CASES = 1000
MAX_MEGABYTES = 64
PLAN = small_plan("krr", users=1000, epsilon_local=0.5, bound="efmrtt19")
KINDS: tuple[Callable[[random.Random, bytearray], None], ...] = (flip, flip, overwrite, truncate, remove, duplicate)


def damaged(content: bytes, number: int) -> bytes:
    """A file after one to three mishaps, by its number."""
    rng, changed = random.Random(number), bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        if changed:
            rng.choice(KINDS)(rng, changed)
    return bytes(changed)


def demand_sentence(error: Exception, begins: str = "") -> None:
    """What went wrong is told in one sentence."""
    text = str(error)
    assert text.endswith("."), text
    assert "\n" not in text, text
    assert len(text) < 1000, text
    assert text.startswith(begins), text


@pytest.fixture(autouse=True)
def little_memory() -> object:
    """Whatever a file claims, reading it takes no more than a little more than before."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield None
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < MAX_MEGABYTES


def test_plans(tmp_path: Path) -> None:
    """Read as it was, or refused: nobody's promise changes by a mishap."""
    content, path = PLAN.text().encode(), tmp_path / "plan.json"
    same = 0
    for number in range(CASES):
        path.write_bytes(damaged(content, number))
        try:
            found = Plan.load(path)
        except (ValueError, TypeError, ShuffledpError) as error:
            demand_sentence(error, "plan: ")
        else:
            same += 1
            assert found == PLAN, number
            assert found.identity() == PLAN.identity()
    assert same < CASES / 20


@pytest.mark.exhaustive
def test_certificates(tmp_path: Path) -> None:
    """Refused by a sentence or judged: yes only to what a fresh proof of the same claim says yes to."""
    path = tmp_path / "certificate.json"
    claim = sdp.certify(sdp.KRR(1.0, options=3), 200, delta=1e-3, effort="quick")
    content = claim.text().encode()
    proved, verdicts = json.loads(content), dict.fromkeys(("yes", "no", "cannot decide", "sentence"), 0)
    for number in range(CASES):
        changed = damaged(content, number)
        path.write_bytes(changed)
        try:
            verdict = verify(path).verdict.value
        except (ValueError, TypeError, ShuffledpError) as error:
            demand_sentence(error)
            verdicts["sentence"] += 1
            continue
        verdicts[verdict] += 1
        if verdict == "yes":
            told = json.loads(changed)
            weaker = told["epsilon"] >= proved["epsilon"] and told["delta"] >= proved["delta"]
            assert (told["randomizer"], told["users"]) == (proved["randomizer"], proved["users"]), number
            assert weaker, number
    assert verdicts["sentence"] > CASES / 2, verdicts


def test_bundles(tmp_path: Path) -> None:
    """Not one message changes unnoticed, and nothing is claimed that is not there."""
    path = tmp_path / "ours.messages"
    collection.encode(PLAN, random_column("krr", 200), out=path)
    content, wanted = path.read_bytes(), read_encoded_file(path)
    for number in range(CASES):
        changed = damaged(content, number)
        path.write_bytes(changed)
        try:
            found = read_encoded_file(path)
        except ValueError as error:
            demand_sentence(error)
        else:
            assert changed == content
            assert found == wanted


def test_shuffled_messages(tmp_path: Path) -> None:
    """The manifest and the files: an estimate of other messages, or for another plan, is never made."""
    collection.encode(PLAN, random_column("krr", 1000), out=tmp_path / "ours.messages")
    collection.shuffle([tmp_path / "ours.messages"], out=tmp_path / "shuffled", plan=PLAN)
    directory = tmp_path / "damaged"
    wanted, told = read_messages(tmp_path / "shuffled", 1), Manifest.read(tmp_path / "shuffled")
    names = sorted(path.name for path in (tmp_path / "shuffled").iterdir())
    shutil.copytree(tmp_path / "shuffled", directory)
    same = 0
    for number in range(CASES):
        name = names[number % len(names)]
        content = (tmp_path / "shuffled" / name).read_bytes()
        (directory / name).write_bytes(damaged(content, number))
        try:
            manifest = Manifest.read(directory)
            found = [row.tobytes() for wire in manifest.read_verified_messages(directory) for row in wire]
        except ValueError as error:
            demand_sentence(error)
        else:
            same += 1
            assert found == wanted, number
            # Counts of users are not in the messages: one that is changed must not make the crowd seem larger.
            assert manifest.plan != told.plan or manifest.count_hiding_users(
                0, SingleMessage()
            ) <= told.count_hiding_users(0, SingleMessage()), number
        (directory / name).write_bytes(content)
    assert same < CASES / 10
