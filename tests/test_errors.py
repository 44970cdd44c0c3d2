"""Messages that refer to arguments: Python's names in ``str()``, options that exist on the command line."""

from __future__ import annotations

import ast
import json
import pickle
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import shuffledp as sdp
from shuffledp import collection
from shuffledp._core import pages, plotting, validation
from shuffledp._core.errors import InvalidArgument, error_phrase
from shuffledp._core.message_phrases import OPTIONS, Argument, phrase, write_option
from shuffledp.cli.app import app
from shuffledp.collection import engine, estimate_tables
from shuffledp.collection.input.files import FileTable
from shuffledp.collection.input.tables import open_input
from shuffledp.explorer import server, workers
from shuffledp.ledger.ledger import Ledger, choose_round
from shuffledp.mechanisms import catalogue
from shuffledp.mechanisms.base import estimator
from shuffledp.service.stores import ShufflerPaths
from shuffledp.tasks import registry
from shuffledp.tasks.base import check_post_processing
from shuffledp.tasks.domain import TaskOptions
from shuffledp.tasks.survey_parser import parse_question

SOURCE = Path(sdp.__file__).parent
LIBRARY = sorted(file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] != "cli")
OPTION_PATTERN = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
PLAN = sdp.Plan(sdp.tasks.Frequency(4), sdp.KRR(1.0, 4), users=10, epsilon=1.0, delta=0.1, rounds=2)
NOBODY = pa.array([0] * 3)


@cache
def options_of_commands() -> dict[str, set[str]]:
    """The options of each command, and of all commands of a group."""

    def options(command: Any) -> set[str]:
        own = {word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts)}
        return own.union(*map(options, getattr(command, "commands", {}).values()))

    root: Any = typer.main.get_command(app)
    return {name: options(root.commands[name]) for name in root.commands if name != "reproduce"}


# --- Each message ---


def plan_with(**given: Any) -> Callable[[], Any]:
    return lambda: registry.from_options(given.pop("task"), TaskOptions(**given))


def read_cells(cells: list[Any], task: sdp.tasks.Task, mechanism: Any) -> Callable[[], Any]:
    plan = sdp.Plan(task, mechanism, users=3, epsilon=99.0, delta=0.1)
    return lambda: collection.encode(plan, pa.array(cells), out="never.messages")


MESSAGES: list[tuple[str, Callable[[], Any], str, str]] = [
    (
        "collect",
        lambda: engine.open_engine("embedded", None, "local").__enter__(),
        "collect: master needs engine='spark'.",
        "collect: --master needs --engine spark.",
    ),
    (
        "collect",
        lambda: estimate_tables.check_output_path("collect", Path("a.txt")),
        "collect: path must end in .csv, .parquet or .json, got 'a.txt'.",
        "collect: --results must end in .csv, .parquet or .json, got 'a.txt'.",
    ),
    (
        "amplify",
        lambda: pages.check_report_path("amplify", Path("a.txt")),
        "amplify: path must end in .md or .html, got 'a.txt'.",
        "amplify: --report must end in .md or .html, got 'a.txt'.",
    ),
    (
        "compare",
        lambda: plotting.check_plot_path("compare", Path("a.txt")),
        "compare: path must end in .png, .pdf or .svg, got 'a.txt'.",
        "compare: --plot must end in .png, .pdf or .svg, got 'a.txt'.",
    ),
    (
        "collect",
        lambda: open_input(NOBODY, rows_per_user=2),
        "input: rows_per_user = 2 needs the column of the users; name it with user=….",
        "input: rows_per_user = 2 needs the column of the users; name it with user (--user).",
    ),
    (
        "collect",
        lambda: open_input(NOBODY, gather=True),
        "input: gather needs the column of the users (user), and takes all of their rows.",
        "input: gather needs the column of the users (--user), and takes all of their rows.",
    ),
    (
        "collect",
        lambda: FileTable("x.parquet", delimiter=";"),
        "input: delimiter is for CSV files, got x.parquet.",
        "input: --delimiter is for CSV files, got x.parquet.",
    ),
    (
        "encode",
        lambda: collection.encode(PLAN, NOBODY, out="never.messages", round_number=1, drawn=True),
        "encode: drawn is for plans whose users are drawn out of more people (of).",
        "encode: --drawn is for plans whose users are drawn out of more people (--of).",
    ),
    (
        "collect",
        lambda: choose_round("collect", PLAN, None, None),
        "collect: the plan has 2 rounds, and without a ledger the next one is unknown; give it by round_number=….",
        "collect: the plan has 2 rounds, and without a ledger the next one is unknown; give it by --round.",
    ),
    (
        "collect",
        lambda: Ledger("nowhere.sqlite").next_round(PLAN),
        "ledger: there is no ledger at nowhere.sqlite; create it by `shuffledp ledger create`, name another one by "
        "ledger=…, or keep none by ledger=None.",
        "ledger: there is no ledger at nowhere.sqlite; create it by `shuffledp ledger create`, name another one by "
        "--ledger, or keep none by --no-ledger.",
    ),
    (
        "collect",
        lambda: check_post_processing("collect", "adds-up", ("non-negative", "monotone"), "mean"),
        "collect: post='adds-up' does not go with the task 'mean', whose estimates have no such constraint; take "
        "post='non-negative' or 'monotone'.",
        "collect: --post adds-up does not go with the task 'mean', whose estimates have no such constraint; take "
        "--post non-negative or monotone.",
    ),
    (
        "collect",
        lambda: estimator.check_memory("collect", 5, 1 << 60),
        "ask for some of them, by options=[…].",
        "ask for some of them, by --options FILE or options=[…].",
    ),
    (
        "encode",
        read_cells([1.0, None], sdp.tasks.Mean(0, 1), sdp.Laplace(1.0)),
        "column 'value': expected a value in every row, got 1 without one; choose a treatment of such rows "
        "(rules=Rules(missing=…)).",
        "column 'value': expected a value in every row, got 1 without one; choose a treatment of such rows "
        "(--missing).",
    ),
    (
        "encode",
        read_cells([1.0, 7.0], sdp.tasks.Mean(0, 1), sdp.Laplace(1.0)),
        "clip them (rules=Rules(clip=True)), or plan for a wider domain.",
        "clip them (--clip), or plan for a wider domain.",
    ),
    (
        "plan",
        plan_with(task="frequency", domain=3, categories=("a", "b")),
        "plan: give either domain or categories, not both.",
        "plan: give either --domain or --categories, not both.",
    ),
    (
        "plan",
        plan_with(task="frequency"),
        "plan: this task needs domain or categories=….",
        "plan: this task needs --domain or --categories FILE.",
    ),
    (
        "plan",
        plan_with(task="mean", low=(0.0, 1.0), high=(2.0,)),
        "plan: this task takes low once, got it 2 times.",
        "plan: this task takes --low once, got it 2 times.",
    ),
    (
        "plan",
        plan_with(task="mean", domain=3),
        "plan: domain does not go with task='mean'.",
        "plan: --domain does not go with --task mean.",
    ),
    (
        "plan",
        plan_with(task="survey"),
        "plan: this task needs question or questions.",
        "plan: this task needs --question or --questions.",
    ),
    (
        "plan",
        plan_with(task="marginals"),
        "plan: this task needs question or questions, one for each column.",
        "plan: this task needs --question or --questions, one for each column.",
    ),
    (
        "plan",
        lambda: sdp.plan(sdp.tasks.HittersAtOnce(bits=16), users=1000, epsilon=1, delta=1e-6, rounds=2),
        "plan: the task 'heavy hitters at once' has one round; leave out rounds.",
        "plan: the task 'heavy hitters at once' has one round; leave out --rounds.",
    ),
    (
        "amplify",
        lambda: catalogue.build("krr", None, {"options": 4}),
        "krr: mechanism needs epsilon_local.",
        "krr: --mechanism needs --epsilon-local.",
    ),
    (
        "amplify",
        lambda: catalogue.build("krr", 1.0, {}),
        "krr: setting options is missing; add options=….",
        "krr: setting options is missing; add --set options=….",
    ),
    (
        "simulate",
        lambda: sdp.simulate(PLAN, users=1e16),
        "simulate: expected at most 1e+15 messages in all, got more; lower users.",
        "simulate: expected at most 1e+15 messages in all, got more; lower --users.",
    ),
    (
        "web",
        lambda: server.bind_socket("127.0.0.1", 70000),
        "web: port must be between 0 and 65535, got 70000.",
        "web: --port must be between 0 and 65535, got 70000.",
    ),
    (
        "serve",
        lambda: ShufflerPaths.from_directories(Path("state"), Path("state/inner")),
        "state state is for backups and keys state/inner is not: neither may be in the other.",
        "--state state is for backups and --keys state/inner is not: neither may be in the other.",
    ),
]


@pytest.mark.parametrize(
    ("command", "call", "in_python", "on_command_line"), MESSAGES, ids=[one[-1][:50] for one in MESSAGES]
)
def test_each_interface_reads_its_own_names(
    command: str,
    call: Callable[[], Any],
    in_python: str,
    on_command_line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"value": NOBODY}), "x.parquet")
    with pytest.raises((ValueError, sdp.ShuffledpError)) as told:
        call()
    error = told.value
    assert isinstance(error, ValueError)
    assert str(error).endswith(in_python)
    assert not OPTION_PATTERN.search(str(error))
    written = error_phrase(error).write(write_option)
    assert written.endswith(on_command_line)
    known = options_of_commands()[command] | {"--of"}
    assert set(OPTION_PATTERN.findall(written)) <= known
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), error_phrase(copy)) == (type(error), str(error), error_phrase(error))


def test_an_argument_error_has_its_parts() -> None:
    error = InvalidArgument("f", "must be small", got="3", hint=phrase("pass {resume=True}"), parameter=Argument("x_y"))
    assert str(error) == "f: x_y must be small, got 3; pass resume=True."
    assert error.message.write(write_option) == "f: --x-y must be small, got 3; pass --resume."
    assert (error.caller, error.got, str(error.hint), str(error.parameter)) == ("f", "3", "pass resume=True", "x_y")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.parameter, copy.hint) == (str(error), error.parameter, error.hint)


def test_an_argument_error_is_relabelled() -> None:
    with pytest.raises(InvalidArgument, match=r"^who: x no\.$"), validation.relabel_errors("who", "a"):
        raise InvalidArgument("a", "no", parameter="x")
    with pytest.raises(InvalidArgument, match=r"^b: no\.$"), validation.relabel_errors("who", "a"):
        raise InvalidArgument("b", "no")


def test_values_of_phrases_are_not_templates() -> None:
    """A person's braces are shown as they are."""
    words = phrase("{given} and {users}", given="{resume}")
    assert (str(words), words.write(write_option)) == ("{resume} and users", "{resume} and --users")


# --- All messages of the source ---


def parse_files(word: str) -> Iterator[tuple[Path, ast.Module]]:
    """The files of the library that contain a word."""
    for file in LIBRARY:
        text = file.read_text("utf-8")
        if word in text:
            yield file, ast.parse(text)


def find_calls(name: str) -> Iterator[tuple[Path, ast.Call]]:
    for file, tree in parse_files(f"{name}("):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield file, node


def constant_text(node: ast.AST) -> str:
    """The constant part of a text; what is inserted is replaced by an ellipsis."""
    if isinstance(node, ast.JoinedStr):
        return "".join(constant_text(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "…"


def referred_arguments() -> Iterator[tuple[Path, Argument]]:
    """Every reference to an argument whose name is written in the source."""
    for file, call in find_calls("phrase"):
        given = {keyword.arg for keyword in call.keywords}
        for _, name, _, _ in Formatter().parse(constant_text(call.args[0])):
            if name is not None and name not in given:
                yield file, Argument(*name.partition("=")[::2])
    for file, call in find_calls("Argument"):
        named = {str(keyword.arg): constant_text(keyword.value) for keyword in call.keywords}
        words = [constant_text(each) for each in call.args]
        if words and not words[0].startswith(("…", "*")):
            yield file, Argument(*words, **named)


def test_every_option_in_a_message_exists() -> None:
    known = set[str]().union(*options_of_commands().values())
    found = [
        (file.name, option)
        for file, one in referred_arguments()
        for option in OPTION_PATTERN.findall(write_option(one))
    ]
    assert len(found) > 40
    assert [each for each in found if each[1] not in known] == []
    assert {option for text in OPTIONS.values() for option in OPTION_PATTERN.findall(text)} <= known


def is_error(node: ast.AST) -> bool:
    """True for a raised or returned exception, without what it is raised from."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Name) and called.id.endswith(("Error", "Argument", "TooWeak", "Taken", "BadRow"))


def test_no_message_of_the_library_has_an_option() -> None:
    """Options are in commands that somebody is told to run, and in the words that only the command line uses."""
    wrong = []
    for file, tree in parse_files("--"):
        raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
        for error in (*raised, *(node for node in ast.walk(tree) if is_error(node))):
            if isinstance(error, ast.Call) and getattr(error.func, "id", "") == "Argument":
                continue
            own = {id(each) for call in ast.walk(error) if isinstance(call, ast.Call) and
                   getattr(call.func, "id", "") == "Argument" for each in ast.walk(call)}  # fmt: skip
            texts = [constant_text(each) for each in ast.walk(error)
                     if isinstance(each, ast.JoinedStr | ast.Constant) and id(each) not in own]  # fmt: skip
            wrong += [f"{file.name}:{error.lineno}: {text}" for text in texts
                      if OPTION_PATTERN.search(re.sub("`[^`]*(`|$)", "", text))]  # fmt: skip
    assert wrong == []


def test_messages_in_a_question_have_no_dashes() -> None:
    with pytest.raises(ValueError, match=r"^plan: question 'city': this task needs domain or categories FILE\.$"):
        parse_question("frequency:city")


def test_the_page_reads_the_names_of_its_fields() -> None:
    """They are Python's parameters, as in its requests."""
    request = {"operation": "amplify", "arguments": ["amplify", "--mechanism=krr", "--set=options=4", "--users=9"],
               "files": {}, "written": []}  # fmt: skip
    with mock.patch.object(sys, "argv", ["shuffledp"]):
        told = workers.run_command(typer.main.get_command(app), request, lambda line: None)
    assert told == {"refused": "krr: mechanism needs epsilon_local."}


def test_a_plan_file_that_lacks_a_setting_keeps_the_reference() -> None:
    document = PLAN.document()
    document.pop("check", None)
    document["mechanism"]["settings"] = {}
    with pytest.raises(ValueError, match=r"^plan: krr: setting options is missing; add options=…\.$") as told:
        sdp.Plan.parse(json.dumps(document))
    assert error_phrase(told.value).write(write_option) == "plan: krr: setting options is missing; add --set options=…."
