"""Surveys as tasks: written down, read, asked for on a line or in a file, and read from columns."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp.collection.input.tables import open_input
from shuffledp.tasks import registry
from shuffledp.tasks.survey_parser import parse_question, read_questions_file

SURVEY = sdp.tasks.Survey(
    [
        ("city", sdp.tasks.Frequency(["Rome", "Oslo", "Bern"]), 0.5),
        ("age", sdp.tasks.Mean(0, 120), 0.3),
        sdp.tasks.Question("member", sdp.tasks.Count(), 0.2),
    ]
)
DRAWN = sdp.Parallel([sdp.KRR(3.0, 3), sdp.Piecewise(3.0), sdp.Duchi(3.0, 1)], SURVEY.shares)
ANSWERED = sdp.AllAnswered([sdp.KRR(3.0, 3), sdp.Piecewise(3.0), sdp.Duchi(3.0, 1)])


def test_it_is_written_down_and_read() -> None:
    assert registry.read_task(json.loads(json.dumps(SURVEY.to_document()))) == SURVEY
    for made in (DRAWN, ANSWERED):
        plan = sdp.Plan(SURVEY, made, users=1000, epsilon=5.0, delta=1e-6)
        assert sdp.Plan.parse(plan.text()) == plan


def test_weights_are_the_decimals_that_were_written() -> None:
    assert [str(share) for share in SURVEY.shares] == ["1/2", "3/10", "1/5"]


@pytest.mark.parametrize("made", [DRAWN, ANSWERED], ids=["drawn", "answered"])
def test_the_error_is_counted_in_users(made: sdp.Mechanism) -> None:
    """By hand: the root of the weighted mean of squares, a mean's error in n/width."""
    users = 5000
    city, age, member = SURVEY.question_errors(made, users)
    by_hand = math.sqrt(0.5 * city**2 + 0.3 * (age * users / 120) ** 2 + 0.2 * member**2)
    assert SURVEY.standard_error(made, users) == pytest.approx(by_hand, rel=1e-12)


def test_a_drawn_question_has_the_error_of_the_formula() -> None:
    """Of signs with second moment s: variance (s/π − E[m²])/n a mean; counts: (Var + (1 − π)·count)/π."""
    users, share = 4000, 0.2
    s = ((math.e**3 + 1) / (math.e**3 - 1)) ** 2
    member = SURVEY.question_errors(DRAWN, users)[2]
    assert member == pytest.approx(users * 0.5 * math.sqrt((s / share - 1) / users), rel=1e-9)
    response = sdp.KRR(3.0, 3)
    own = response.variance([0, 1, 2])
    by_hand = math.sqrt(float(np.mean(own / 0.5 + (1 / 0.5 - 1) * 1.0)) * users / 3)
    assert SURVEY.question_errors(DRAWN, users)[0] == pytest.approx(by_hand, rel=1e-9)


def test_the_curator_divides_its_budget_best() -> None:
    """No other division of ε, nor of μ², has less error: tried at random."""
    found = SURVEY.sensitivity(1000)
    rng = np.random.default_rng(5)
    weights = np.array([float(share) for share in SURVEY.shares])
    sums = np.array([2.0 * math.sqrt(1 - 1 / 3), 1.0, 1.0])
    roots = np.array([math.sqrt(2.0) * math.sqrt(1 - 1 / 3), 1.0, 1.0])
    parts = rng.dirichlet(np.ones(3), 20_000)
    laplace = np.sqrt((weights * (sums / parts) ** 2).sum(axis=1))
    gaussian = np.sqrt((weights * roots**2 / parts).sum(axis=1))
    assert found.l1 <= laplace.min() <= found.l1 * 1.01
    assert found.l2 <= gaussian.min() <= found.l2 * 1.01


def test_columns_are_read_by_their_questions(tmp_path: Path) -> None:
    plan = sdp.Plan(SURVEY, ANSWERED, users=3, epsilon=9.0, delta=1e-3)
    data = pa.table({"age": [60.0, 0.0, 120.0], "member": ["yes", "no", "yes"], "city": ["Oslo", "Rome", "Bern"]})
    names = SURVEY.resolve_columns(())
    assert names == ("city", "age", "member")
    for given in (data, _csv(data, tmp_path)):
        column = plan.column(*names)
        (array,) = open_input(given, names).batches(column, 10)
        assert column.read_values(array).tolist() == [[1, 0, 1], [0, -1, -1], [2, 1, 1]]
    with pytest.raises(ValueError, match=r"column 'age': expected numbers from 0 to 120, got something else in 1 of 3"):
        _read(plan, data.set_column(0, "age", pa.array([1.0, 2.0, 130.0])))
    with pytest.raises(ValueError, match="input: the plan names the columns of its questions: city, age"):
        SURVEY.resolve_columns(("city",))


def _csv(data: pa.Table, room: Path) -> Path:
    import pyarrow.csv as pc

    pc.write_csv(data, room / "data.csv")
    return room / "data.csv"


def _read(plan: sdp.Plan, data: pa.Table) -> Any:
    names = SURVEY.resolve_columns(())
    column = plan.column(*names)
    return [column.read_values(array) for array in open_input(data, names).batches(column, 10)]


def test_two_questions_about_one_column() -> None:
    both = sdp.tasks.Survey([("age", sdp.tasks.Frequency(100)), ("age", sdp.tasks.Mean(0, 99))])
    assert both.names == ("age (frequency)", "age (mean)")
    assert both.resolve_columns(()) == ("age",)
    # A text such as "nan" may be a category, so that it says nothing is missing unless all take it for a number.
    assert not both.is_number_column(0)
    plan = sdp.Plan(both, sdp.AllAnswered([sdp.KRR(3.0, 100), sdp.Piecewise(3.0)]), users=9, epsilon=9.0, delta=1e-3)
    assert plan.column("age").read_values(pa.array([0, 99])).tolist() == [[0, -1], [99, 1]]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (3, "a survey needs a list of questions, got 3"),
        ([], "the number of questions must be at least 1"),
        (["city"], "a question is (column, task) or (column, task, weight), got 'city'"),
        ([("city", "frequency")], "a question needs a task"),
        ([("city", sdp.tasks.Frequency(3), 0)], "weight must be above 0 and finite, got 0.0"),
        ([("", sdp.tasks.Frequency(3))], "a question needs the name of its column, got ''"),
        ([(("a", "b"), sdp.tasks.Frequency(3))], "reads one column, got 2 of them"),
        ([("a", sdp.tasks.Count()), ("a", sdp.tasks.Count())], "expected each question once, got 'a (count)' twice"),
        ([("a", SURVEY)], "a question is a single task, got the task 'survey'"),
    ],
)
def test_what_is_no_survey(given: Any, sentence: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        sdp.tasks.Survey(given)
    assert sentence in str(caught.value)


def test_what_is_no_mechanism_for_it() -> None:
    for made, sentence in (
        (sdp.KRR(1.0, 3), "needs a mechanism for 3 queries, such as all-answered, got krr"),
        (sdp.AllAnswered([sdp.KRR(1.0, 3)]), "needs a mechanism for 3 queries"),
        (sdp.AllAnswered([sdp.KRR(1.0, 4), *ANSWERED.mechanisms[1:]]), "krr has options = 4, but the domain has 3"),
    ):
        with pytest.raises(ValueError, match=sentence):
            sdp.Plan(SURVEY, made, users=10, epsilon=1.0, delta=1e-3)
    ranges = sdp.tasks.Survey([("age", sdp.tasks.Ranges(8)), ("member", sdp.tasks.Count())])
    drawn = sdp.Parallel([sdp.KRR(1.0, 8), sdp.Duchi(1.0, 1)])
    with pytest.raises(ValueError, match="not known if only some users answer 'age'; let all users answer"):
        sdp.Plan(ranges, drawn, users=10, epsilon=1.0, delta=1e-3)


def test_a_file_says_what_lines_say(tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("Rome\nOslo\nBern\n")
    lines = (f"frequency:city:0.5:categories={tmp_path}/cities.txt", "mean:age:0.3:low=0,high=120", "count:member:0.2")
    assert sdp.tasks.Survey(map(parse_question, lines)) == SURVEY
    toml = tmp_path / "survey.toml"
    toml.write_text(
        '[[question]]\ncolumn = "city"\ntask = "frequency"\ncategories = "cities.txt"\nweight = 0.5\n'
        '[[question]]\ncolumn = "age"\ntask = "mean"\nlow = 0\nhigh = 120\nweight = 0.3\n'
        '[[question]]\ncolumn = "member"\ntask = "count"\nweight = 0.2\n'
    )
    assert sdp.tasks.Survey(read_questions_file(toml)) == SURVEY
    told = [
        {"column": "x", "mechanism": "krr", "domain": 4},
        {"column": "y", "task": "frequency", "categories": ["a", "b"]},
    ]
    for document in (told, {"questions": told}):
        (tmp_path / "survey.json").write_text(json.dumps(document))
        first, second = read_questions_file(tmp_path / "survey.json")
        assert (first.mechanism, first.task, first.weight) == ("krr", sdp.tasks.Frequency(4), 1.0)
        assert second.task == sdp.tasks.Frequency(["a", "b"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("krr", "a question is NAME:COLUMN:WEIGHT:OPTION=VALUE,…, got 'krr'"),
        ("guess:city", "a question begins with a mechanism, such as krr, or with one of frequency"),
        ("survey:city", "a question begins with"),
        ("parallel:city", "a question begins with"),
        ("frequency:city", "question 'city': this task needs domain or categories FILE"),
        ("mean:age:much:low=0,high=1", "question 'age': weight must be a number, got 'much'"),
        ("mean:age:1:low", "got 'low' among its options"),
        ("mean:age:1:low=a,high=2", "question 'age': low must be a number, got 'a'"),
        ("mean:age:1:lo=0", "options are domain, categories"),
        ("mean:age:1:low=0,high=1,items=3", "items does not go with task mean"),
    ],
)
def test_lines_that_are_no_question(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        parse_question(text)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"questions": [3]}', '{"questions": [{"task": "count"}]}',
                                  '{"questions": [{"column": "a"}]}',
                                  '{"questions": [{"column": "a", "task": 3}]}'])  # fmt: skip
def test_files_that_are_no_survey(text: str, tmp_path: Path) -> None:
    (tmp_path / "survey.json").write_text(text)
    with pytest.raises(ValueError, match=r"^plan: "):
        read_questions_file(tmp_path / "survey.json")


@pytest.mark.parametrize("document", [{}, {"questions": 3}, {"questions": [{}]},
                                      {"questions": [{"column": 1, "task": {}}]},
                                      {"questions": [], "domain": {}}])  # fmt: skip
def test_plans_that_are_no_survey(document: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        registry.read_task({"name": "survey", **document})
