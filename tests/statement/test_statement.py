"""Statements: what is typed stays as typed, every condition is there, every key has its source."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp import statement
from shuffledp._core.citations import CITATIONS, find_citations
from shuffledp._core.errors import ShuffledpError
from shuffledp.bounds.registry import BOUNDS_BY_NAME
from shuffledp.statement import build_fact_rows

KRR = sdp.KRR(epsilon=2.0, options=16)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def told() -> sdp.Statement:
    curve = sdp.amplify(KRR, users=10_000, effort="quick")
    schedule = sdp.Participation(10_000)
    needed = sdp.conditions(KRR, schedule)
    command = "shuffledp amplify --users 10000 <script>"
    return sdp.Statement(
        curve.epsilon(delta=1e-8),
        needed,
        curve=curve,
        command=command,
        facts=build_fact_rows(KRR, 10_000, schedule.rows()),
        date="2026-01-31",
    )


def test_three_registers_and_the_attack(told: sdp.Statement) -> None:
    text = told.markdown()
    assert "Anyone who is 50% sure of a person's value beforehand" in text
    assert "(0.08712307, 1e-8)-differentially private" in text
    assert "hockey-stick divergence" in text
    assert "[PB] B. Balle" in text
    assert "[SCW25] P. Su" in text
    assert re.search(r"on a constructed dataset achieves ε = 0\.0871\d: nobody can prove less", text)
    assert "accepts 1% false alarms" in text
    assert "| date | 2026-01-31 |" in text
    assert "local ε = 2" in text
    for sentence in told.conditions:
        assert f"- {sentence}" in text


def test_a_number_that_was_given_is_not_rounded_and_one_that_was_found_is_rounded_up(told: sdp.Statement) -> None:
    assert told.formal_sentence().endswith("ε = 0.08712307, δ = 1e-8.")
    assert told.value.upper <= 0.08712307 <= told.value.upper * (1 + 1e-6)
    curve = sdp.amplify(KRR, users=10_000, effort="quick")
    other = sdp.Statement(curve.delta(0.0812345), ())
    assert "ε = 0.0812345, δ = " in other.formal_sentence()


class Tags(HTMLParser):
    """Which tags there are, and whether each is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_html_that_loads_nothing(told: sdp.Statement) -> None:
    page = told.html()
    tags = Tags()
    tags.feed(page)
    assert not tags.open
    assert {"h1", "li", "table", "pre"} <= tags.seen
    assert not tags.seen & {"script", "link", "img", "iframe"}
    assert "url(" not in page
    assert "&lt;script&gt;" in page


def test_conditions_follow_the_schedule() -> None:
    everybody = sdp.conditions(KRR, sdp.Participation(1000))
    assert statement.SECRET_SAMPLE_CONDITION not in everybody
    assert "All 1,000 users are honest: no user reveals their message, and none is fabricated." in everybody
    drawn = sdp.conditions(KRR, sdp.Participation(1000, 5000, rounds=3), colluding=10, per_person=2, rows=True)
    assert statement.SECRET_SAMPLE_CONDITION in drawn
    assert "At least 990 of the 1,000 users of a round are honest; up to 10 may reveal what they sent." in drawn
    assert "No person has more than 2 rows." in drawn
    assert any("these 3 rounds" in sentence for sentence in drawn)
    coins = sdp.conditions(KRR, sdp.Participation(of=5000, rate="2%"), colluding=1)  # type: ignore[arg-type]
    assert any("up to 1 of whom may reveal" in sentence for sentence in coins)


def test_conditions_of_noise_that_is_shared() -> None:
    """Who draws it, and that the number of a user's messages tells part of it."""
    flood = sdp.CancellingNoise(4, rate=0.5, shape=30.0, ratio=0.95, honest=1000)
    assert "Nobody learns how many messages a user sent." in sdp.conditions(flood, sdp.Participation(1000))
    central = sdp.CancellingNoise(4, rate=0.5, shape=30.0, ratio=0.95, honest=0)
    assert any("shuffler draws the noise" in sentence for sentence in sdp.conditions(central, sdp.Participation(1000)))
    seeds = sdp.Compressed(sdp.KRR(1.0, options=4))
    assert any("Assumes" in sentence for sentence in sdp.conditions(seeds, sdp.Participation(1000)))


def test_what_is_no_guarantee_is_not_stated() -> None:
    curve = sdp.amplify(KRR, users=10_000, bound="variation-ratio-published")
    with pytest.raises(ShuffledpError, match="not a guarantee"):
        sdp.Statement(curve.epsilon(1e-6), ())


def test_every_key_has_a_source_and_the_page_of_theorems_has_the_same() -> None:
    for bound in BOUNDS_BY_NAME.values():
        keys = set(re.findall(r"\[([A-Z]+\d*)[\]\s]", bound.theorem))
        assert keys <= set(CITATIONS)
        assert len(find_citations(bound.theorem)) == len(keys)
    theorems = (ROOT / "docs/theorems.md").read_text("utf-8")
    listed = re.findall(r"^\| \[(\w+)\] \| (.*?)(?: \(its numbering\))? \|$", theorems, re.MULTILINE)
    plain = {key: text.replace("*", "") for key, text in listed}
    assert plain == CITATIONS


def test_bad_places_are_refused_by_a_sentence(told: sdp.Statement, tmp_path: Path) -> None:
    for name, words in (("told.txt", r"must end in \.md or \.html"), ("nowhere/told.md", "there is no directory")):
        with pytest.raises(ValueError, match=words):
            told.save(tmp_path / name)
    told.save(tmp_path / "told.html")
    assert (tmp_path / "told.html").read_text("utf-8") == told.html()
