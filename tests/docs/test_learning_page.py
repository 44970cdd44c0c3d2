"""docs/learning.md and the programs in examples/: they run, they learn, and every number is what the package says."""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr, ndtr

import shuffledp as sdp
from shuffledp._core.formatting import format_epsilon

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "learning.md").read_text("utf-8")
SHOWN = re.compile(r"^print\(.*\)\s+# (.*)$", re.MULTILINE)
CONSOLE = re.compile(r"```console\n\$ python examples/(\w+)\.py (.*)\n((?:.*\n)*?)```")
NUMBERS = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?")
DELTA = 1e-6
DIMENSION, PEOPLE, ROUNDS = 16, 280_000, 50
NO_PRIVACY, ALWAYS_IN_TIME = 0.797, 0.593


def schedule_of(users: int, rounds: int = ROUNDS) -> sdp.Participation:
    return sdp.Participation(users=users, of=PEOPLE, rounds=rounds)


def row(first: str) -> list[str]:
    """The cells of the one row of a table that begins so, in a page that has it once."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.removeprefix(f"| {first} |").strip("|").split("|")]


@pytest.fixture(scope="module")
def examples() -> Iterator[ModuleType]:
    """The program of the shuffled rounds as a module."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        yield importlib.import_module("shuffled_sgd")
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def data(examples: ModuleType) -> Any:
    """The clients and the other flights."""
    return examples.flights()


def run(program: str, *arguments: str) -> list[str]:
    """What a program prints, as whoever tries it starts it."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{program}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def value(lines: list[str], name: str) -> float:
    """The first number of the line that begins with this name."""
    (line,) = [line for line in lines if line.strip().startswith(name)]
    found = re.search(r"\d[\d.]*", line.partition(name)[2])
    assert found is not None
    return float(found[0])


def compare(shown: list[str], real: list[str]) -> None:
    """The same words; the same numbers, but for the last digit of what was measured."""
    for one, other in zip(shown, real, strict=True):
        assert NUMBERS.sub("#", one) == NUMBERS.sub("#", other)
        slack = 0.0021 if re.fullmatch(r"  [a-zε, ]+ 0\.\d{3,4}", one) else 0.0
        for left, right in zip(NUMBERS.findall(one), NUMBERS.findall(other), strict=True):
            assert float(left.replace(",", "")) == pytest.approx(float(right.replace(",", "")), rel=1e-5, abs=slack)


@pytest.mark.docs
def test_the_python_runs() -> None:
    """All blocks in order, in one namespace; they print what their comments say."""
    space: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block, "docs/learning.md", "exec"), space)
        assert out.getvalue().splitlines() == SHOWN.findall(block)


# --- shuffled rounds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [
        ("PrivUnitOptimized", sdp.PrivUnitOptimized(4.0, DIMENSION)),
        ("PrivUnitG", sdp.PrivUnitG(4.0, DIMENSION)),
        ("compressed PrivUnitG", sdp.Compressed(sdp.PrivUnitG(4.0, DIMENSION), prg="shake128")),
        ("PrivHS", sdp.PrivHS(4.0, DIMENSION)),
        ("SQKR", sdp.SQKR(4.0, DIMENSION)),
    ],
)
def test_the_table_of_mechanisms(name: str, mechanism: sdp.Mechanism) -> None:
    """Bits, error of one message, and both promises, rounded up."""
    error = mechanism.variance(np.eye(DIMENSION)[:1]).sum()
    secret = schedule_of(5_000).curve(mechanism, effort="quick")
    known = schedule_of(5_000).disclosed_sample_curve(mechanism, effort="quick")
    assert secret.guarantee
    assert known.guarantee
    told = [format_epsilon(secret.epsilon(DELTA).upper, 4), format_epsilon(known.epsilon(DELTA).upper, 5)]
    assert row(name) == [str(mechanism.message_bits), f"{error:.2f}", *told]


@pytest.mark.docs
@pytest.mark.parametrize(
    ("users", "local", "learns"), [(5_000, 4, True), (5_000, 1, True), (500, 4, True), (500, 1, False), (100, 1, False)]
)
def test_the_table_of_rounds(examples: ModuleType, data: Any, users: int, local: int, learns: bool) -> None:
    """The promises by the package, the accuracy by the program; where the error of a step is large it learns badly."""
    clients, others = data
    schedule, mechanism = schedule_of(users), sdp.PrivUnitOptimized(float(local), DIMENSION)
    promises = [
        schedule.curve(mechanism, effort="quick"),
        schedule.disclosed_sample_curve(mechanism, effort="quick"),
        sdp.amplify(mechanism, users, effort="quick"),
    ]
    cells = row(f"{users:,} | {local}")
    assert cells[:3] == [format_epsilon(curve.epsilon(DELTA).upper, 4) for curve in promises]
    error = math.sqrt(mechanism.variance(np.eye(DIMENSION)[:1]).sum() / users)
    assert cells[3] == f"{error:.2f}"
    assert (error < 0.4) == learns
    chance = examples.Chance.of(1)
    model = examples.learn(clients, examples.drawn_anew(schedule, chance), mechanism, chance)
    assert others.accuracy(model) == pytest.approx(float(cells[4]), abs=0.002)
    assert (float(cells[4]) > NO_PRIVACY - 0.01) == learns


@pytest.mark.docs
def test_runs_without_a_shuffler_differ(examples: ModuleType, data: Any) -> None:
    """The accuracy of the second seed that the page names."""
    (shown,) = re.findall(r"([\d.]+) with seed 2", PAGE)
    clients, others = data
    epsilon = schedule_of(5_000).curve(sdp.PrivUnitOptimized(4.0, DIMENSION), effort="quick").epsilon(DELTA).upper
    found = examples.without_shuffler(clients, others, 5_000, epsilon, 2)
    assert found == pytest.approx(float(shown), abs=0.002)


@pytest.mark.docs
def test_the_program_learns_with_other_options() -> None:
    """A small run, compressed: accuracy near the one without privacy and far above chance; the promise is the
    schedule's. What it does without options is shown on the page."""
    mechanism = sdp.Compressed(sdp.PrivUnitG(4.0, DIMENSION), prg="shake128")
    lines = run("shuffled_sgd", "--clients", "2000", "--rounds", "12", "--seed", "3", "--compressed")
    schedule = schedule_of(2_000, 12)
    for name, curve in (("ε of all rounds", schedule.curve), ("if it is known", schedule.disclosed_sample_curve)):
        promised = curve(mechanism, effort="quick").epsilon(DELTA).upper
        assert f"{name} {format_epsilon(promised)} " in " ".join(" ".join(lines).split())
    assert any("at δ = 1e-06; holds only if nobody learns who was drawn" in line for line in lines)
    assert any("Assumes that SHAKE128" in line for line in lines)
    exact, chance = value(lines, "no privacy"), value(lines, "always in time")
    assert exact > 0.78
    assert value(lines, "shuffled") > exact - 0.02
    assert value(lines, "shuffled") > chance + 0.15
    assert value(lines, "local, same ε") < exact - 0.02


@pytest.mark.docs
@pytest.mark.parametrize(("program", "arguments", "shown"), CONSOLE.findall(PAGE))
def test_the_programs_print_what_is_shown(program: str, arguments: str, shown: str) -> None:
    """As it stands on the page."""
    compare(shown.splitlines(), run(program, *arguments.split()))


def test_there_are_programs_and_the_page_says_what_they_find() -> None:
    """Both of them; the text repeats numbers of their output."""
    shown = {program: text.splitlines() for program, _, text in CONSOLE.findall(PAGE)}
    assert set(shown) == {"shuffled_sgd", "random_start"} == {path.stem for path in EXAMPLES.glob("*.py")} - {"flights"}
    rounds = shown["shuffled_sgd"]
    assert value(rounds, "no privacy") == NO_PRIVACY
    assert value(rounds, "always in time") == ALWAYS_IN_TIME
    assert f"is right for {ALWAYS_IN_TIME}, the model without privacy for {NO_PRIVACY}" in PAGE
    assert f"{value(rounds, 'local, same ε')} with seed 1" in PAGE
    assert value(rounds, "no shuffler") == 50 * 4
    steps = shown["random_start"]
    assert value(steps, "private") < value(steps, "no privacy") + 0.001
    assert value(steps, "private") < value(steps, "start") - 0.1


def test_no_flight_is_two_clients(data: Any) -> None:
    """All flights that arrived are there once, in one of the two parts."""
    clients, others = data
    assert len(clients.late) == PEOPLE
    assert len(clients.late) + len(others.late) == 327_346
    assert clients.features.shape[1] == DIMENSION
    assert np.abs(clients.features).max() <= 1


def test_gradients_are_in_the_unit_ball_and_right(examples: ModuleType, data: Any) -> None:
    """Against differences of the loss, where nothing is clipped."""
    clients, _ = data
    model = np.linspace(-0.1, 0.1, DIMENSION)
    found = examples.gradients(clients, range(200), model)
    lengths = np.linalg.norm(found, axis=1)
    assert lengths.max() <= 1 + 1e-12
    inside = np.flatnonzero(lengths < 0.99)
    assert len(inside) > 10
    features, late = clients.features[inside], clients.late[inside]

    def losses(at: Any) -> Any:
        return -np.log(np.where(late > 0, expit(features @ at), expit(-features @ at)))

    for k in range(DIMENSION):
        step = 1e-5 * np.eye(DIMENSION)[k]
        slopes = (losses(model + step) - losses(model - step)) / 2e-5
        np.testing.assert_allclose(found[inside, k], slopes, atol=1e-8)


# --- a random start ---------------------------------------------------------------------------------------------------


def gaussian(mu: float, epsilon: float) -> float:
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def epsilon_of_steps(steps: int, noise: float) -> float:
    """By another way: given the start, all steps together are one Gaussian step; then the mean over the start."""

    def excess(epsilon: float) -> float:
        def at(start: float) -> float:
            shift = math.sqrt(expit(abs(start)) ** 2 + steps - 1) / noise
            return gaussian(shift, epsilon) * math.exp(-start * start / 2) / math.sqrt(2 * math.pi)

        return 2 * float(integrate.quad(at, 0, 10, epsabs=1e-13, epsrel=1e-9)[0]) - DELTA

    return float(brentq(excess, 1e-6, 50.0, xtol=1e-10))


@pytest.mark.docs
@pytest.mark.parametrize("steps", [1, 2, 5, 20])
def test_the_table_of_steps(examples: ModuleType, steps: int) -> None:
    """What is composed is above the exact value for an attacker who knows the start, by little."""
    assert examples
    program = importlib.import_module("random_start")
    random, fixed = program.from_random_start(steps, 4.0), program.from_fixed_start(steps, 4.0)
    assert random.guarantee
    found = [curve.epsilon(DELTA).upper for curve in (random, fixed)]
    assert row(str(steps)) == [format_epsilon(upper, 4) for upper in found]
    exact = epsilon_of_steps(steps, 4.0)
    assert exact <= found[0] <= exact * 1.004
    plain = brentq(lambda epsilon: gaussian(math.sqrt(steps) / 4, epsilon) - DELTA, 1e-6, 50.0)
    assert plain * (1 - 1e-9) <= found[1] <= plain * 1.0005


def test_the_descent_keeps_to_its_promise(examples: ModuleType) -> None:
    """No feature is beyond the limit; a record moves the first step by at most σ(|I|) and a later one by at most 1."""
    assert examples
    program = importlib.import_module("random_start")
    records, _ = program.departures()
    feature = records.features[:, 0]
    assert np.abs(feature).max() <= program.LIMIT
    for model in (-2.0, -0.3, 0.0, 1.0, 4.0):
        gradients = np.abs((expit(feature * model) - records.late) * feature)
        assert gradients.max() <= expit(abs(model)) + 1e-15


def test_the_curve_of_the_step_itself_is_no_guarantee() -> None:
    """As the page says, and composing it says so."""
    step = sdp.tradeoff.NoisyStep(sdp.tradeoff.Logistic(1.0), 4.0)
    assert not sdp.compose([sdp.privacy_curve(step), sdp.privacy_curve(step.guaranteed_curve(20))]).guarantee


# --- shuffled minibatches ---------------------------------------------------------------------------------------------

BATCHES, NOISE = 1_000, 0.5


def attack(threshold: Any, batches: int, noise: float) -> tuple[Any, Any]:
    """How often some batch's sum is above the threshold (from −b on): with the record, and with its gradient zeroed.

    All others' gradients are −1, the record's is 1: its batch is 2 above the others, or 1.
    """
    rest = (batches - 1) * log_ndtr(threshold / noise)
    return tuple(-np.expm1(log_ndtr((threshold - shift) / noise) + rest) for shift in (2, 1))


def attained(batches: int, noise: float) -> float:
    """The largest ε that the attack refutes at δ."""
    thresholds = np.linspace(0, 2 + 12 * noise, 4001)
    there, zeroed = attack(thresholds, batches, noise)
    return float(brentq(lambda epsilon: (there - math.exp(epsilon) * zeroed).max() - DELTA, 0, 100))


def test_the_gap_between_shuffled_and_poisson_batches() -> None:
    """The three numbers of the page; the attack is far above the ε of Poisson samples, and no guarantee is below it."""
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    step = accounting.PoissonSampledDpEvent(1 / BATCHES, accounting.GaussianDpEvent(NOISE))
    poisson = accountant.compose(step, BATCHES).get_epsilon(DELTA)
    shuffled = attained(BATCHES, NOISE)
    plain = sdp.privacy_curve(sdp.tradeoff.GaussianTradeOff(1 / NOISE)).epsilon(DELTA).upper
    assert row("computed as if batches were Poisson samples of rate 1/1000") == [f"{poisson:.2f}"]
    assert row("achieved by an attack on the shuffled batches") == [f"{math.floor(shuffled * 100) / 100:.2f}"]
    assert row("one Gaussian step, nothing claimed for the order") == [f"{math.ceil(plain * 100) / 100:.2f}"]
    assert 2 * poisson < shuffled < plain


def test_the_attack_is_what_shuffled_batches_do() -> None:
    """Four batches of five, shuffled and noised, 40,000 times: within 6 standard deviations (false alarm 8e-9)."""
    rng = np.random.default_rng(5)
    batches, size, noise, threshold, times = 4, 5, 0.5, 1.2, 40_000
    for own, exact in zip((1.0, 0.0), attack(threshold, batches, noise), strict=True):
        gradients = np.full((times, batches * size), -1.0)
        gradients[:, 0] = own
        sums = rng.permuted(gradients, axis=1).reshape(times, batches, size).sum(axis=2)
        seen = (sums + noise * rng.standard_normal(sums.shape) + size > threshold).any(axis=1).mean()
        assert abs(seen - exact) < 6 * math.sqrt(exact * (1 - exact) / times)
