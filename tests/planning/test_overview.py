"""The table of a ranking: the curator beside each error, what sealing costs, averages, and terminals of any width."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from shuffledp import KRR, OUE, BalcerCheu, PureDUMP
from shuffledp._core.formatting import format_average, format_json
from shuffledp.mechanisms.base.mechanism import Mechanism
from shuffledp.planning import mechanism_calibration, ranking_text
from shuffledp.planning.goal import Limits
from shuffledp.planning.mechanism_calibration import Candidate, Cost
from shuffledp.planning.ranking import Ranking
from shuffledp.privacy.curve import BoundValue
from tests.planning.goals import small_goal

LONGEST = "compressed-projective-geometry"


VARYING: type[PureDUMP] = type("Varying", (PureDUMP,), {"messages_per_user": 1.3})
"""Sends 1.3 messages on average."""


def offer_of(mechanism: Mechanism, name: str = "", error: float = 12.3456) -> Candidate:
    """An offer whose proof nobody reads."""
    goal = small_goal("frequency")
    proof = BoundValue(0.99, 1e-12, "optimal", "none", certified=True, guarantee=True)
    return Candidate(goal, name or mechanism.name, mechanism, proof, error, Cost(1e-7, 1e-9, 0.1), "")


def cell(offer: Candidate, name: str) -> str:
    return ranking_text.format_row(offer, wins=False)[ranking_text.HEADINGS.index(name)]


@pytest.mark.parametrize(
    ("mechanism", "bytes_sent"),
    [(KRR(1.0, 9), 97), (KRR(1.0, 300), 98), (OUE(1.0, 9), 98), (PureDUMP(9, 3), 4 * 49 + 48)],
    ids=["krr", "two bytes", "oue", "four messages"],
)
def test_a_sealed_report_has_two_layers(mechanism: Mechanism, bytes_sent: int) -> None:
    """m·(w + 48) + 48 bytes, where w bytes are a message; 97 for randomized response on up to 256 options."""
    assert mechanism_calibration.sealed_bits(mechanism) == 8 * bytes_sent
    assert cell(offer_of(mechanism), "sealed") == f"{8 * bytes_sent:,}"


def test_the_curator_stands_beside_each_error() -> None:
    """As a ratio, in the table and in JSON."""
    offer = offer_of(KRR(1.0, 9))
    times = 12.3456 / offer.goal.central_baseline.standard_error
    assert cell(offer, "× curator") == f"{times:.3g}"
    assert cell(offer_of(KRR(1.0, 9), error=1e4), "× curator") == f"{1e4 / 12.3456 * times:,.0f}"
    (told,) = Ranking.from_outcomes(offer.goal, [offer]).document()["mechanisms"]
    assert told["times_curator"] == times
    assert (told["bits_per_user"], told["sealed_bits_per_user"]) == (4, 776)


def test_an_average_number_of_messages() -> None:
    """Is shown in three digits, is whole in no sum, and goes through the costs and the limits."""
    mechanism = VARYING(9, 1)
    offer = offer_of(mechanism)
    assert (cell(offer, "msgs"), cell(offer, "bits")) == ("1.30", "6")
    assert offer.sealed_bits == math.ceil(8 * (1.3 * 49 + 48))
    assert Limits(messages=1).find_violation(mechanism) == "sends 1.30 messages a user"
    assert Limits(messages=2, bits=5).find_violation(mechanism) == "sends 5.20 bits a user"
    assert mechanism_calibration.measure_cost(mechanism, mechanism.audit_pair()).encoding_seconds > 0
    (told,) = json.loads(format_json(Ranking.from_outcomes(offer.goal, [offer]).document()))["mechanisms"]
    assert told["messages_per_user"] == 1.3
    assert [format_average(number) for number in (2, 2.0, 2048, 1.26)] == ["2", "2", "2,048", "1.26"]


@pytest.mark.parametrize(
    ("influence", "text"), [(1.0712, "1.07"), (594.7, "595"), (123_456.0, "123,456"), (math.inf, "∞"), (None, "–")]
)
def test_what_one_liar_can_move(influence: float | None, text: str) -> None:
    """As the mechanism says, in the table and in JSON, with a line that explains it."""
    liar: type[KRR] = type("Liar", (KRR,), {"influence": influence})
    offer = offer_of(liar(1.0, 9))
    assert cell(offer, "liar") == text
    shown = Ranking.from_outcomes(offer.goal, [offer])
    assert "liar: the largest influence of one dishonest user on an estimate, in users" in str(shown)
    (told,) = shown.document()["mechanisms"]
    assert told["influence"] == influence


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (99_999, "99,999"),
        (819_584, "820k"),
        (999_400, "999k"),
        (999_999, "1,000k"),
        (1_500_000, "1.5M"),
        (3 * 10**11, "300G"),
    ],
)
def test_large_sizes_are_short(bits: int, text: str) -> None:
    """To the bit as long as they fit."""
    assert ranking_text._format_bits(bits) == text


@pytest.mark.parametrize("width", [120, 100, 80])
def test_the_table_fits(width: int) -> None:
    """Names as long as they come; the times go first where there is no room."""
    long = dataclasses.replace(offer_of(OUE(9.62, 9), LONGEST), standard_error=1.2345e-5)
    rows = [ranking_text.format_row(offer, wins=True) for offer in (offer_of(BalcerCheu(9, 0.75), "krr"), long)]
    assert max(map(len, ranking_text.align_table(rows, width))) <= max(width, 100)
    usual = ranking_text.align_table(
        [ranking_text.format_row(offer_of(BalcerCheu(1024, 0.75), "projective-geometry"), wins=False)], width
    )
    assert max(map(len, usual)) <= width
    assert ("client" in usual[0]) == (width >= 100)
    for name in ("× curator", "sealed", "liar", "rests on"):
        assert name in usual[0]
