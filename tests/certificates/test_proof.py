"""The proof against exact fractions: it never says yes when δ is too small, nor no when it is enough."""

from __future__ import annotations

import ast
import math
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
import shuffledp_verify
from flint import arb, fmpq
from hypothesis import given, settings, strategies as st
from shuffledp_verify import Verdict
from shuffledp_verify.arithmetic import Number, bracket_exponential, precision
from shuffledp_verify.divergence import ContourSum, decide_divergence, enumerate_counts, sum_binomials

import shuffledp.certificates
from shuffledp.numerics import ball_arithmetic
from tests.oracle.exact_enumeration import hockey_stick_of_counts, positive_part_mean

FORBIDDEN = {"contour_integral", "positive_part", "roots", "distributions", "worst_case_positive_part", "worst_dataset"}


def rational(number: Fraction) -> fmpq:
    return fmpq(number.numerator, number.denominator)


def classes_of(
    first: list[Fraction], second: list[Fraction], hiding: list[Fraction]
) -> list[tuple[Number, Number, Number]]:
    """Exact classes with the revealed rest."""
    rows = zip([*first, Fraction(0)], [*second, Fraction(0)], [*hiding, 1 - sum(hiding)], strict=True)
    return [(rational(a), rational(b), rational(h)) for a, b, h in rows if a or b or h]


def shares(parts: list[int]) -> list[Fraction]:
    return [Fraction(part, sum(parts)) for part in parts]


@st.composite
def laws(draw: st.DrawFn) -> tuple[list[Fraction], list[Fraction], list[Fraction]]:
    """Three laws of two to four classes; the hiding one may lack something to 1, or be 0 somewhere."""
    size = draw(st.integers(2, 4))
    part = st.integers(0, 9)
    first, second = (shares(draw(st.lists(part, min_size=size, max_size=size).filter(any))) for _ in range(2))
    hiding = draw(st.lists(part, min_size=size, max_size=size).filter(any))
    total = sum(hiding) + draw(st.integers(0, 9))
    return first, second, [Fraction(part, total) for part in hiding]


class TestExponential:
    """e^x between two rationals."""

    @given(st.fractions(min_value=0, max_value=900, max_denominator=10**9))
    def test_it_encloses_narrowly(self, x: Fraction) -> None:
        low, high = bracket_exponential(x)
        with mpmath.workdps(200):
            truth = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
            below, above = (mpmath.mpf(int(side.p)) / int(side.q) for side in (low, high))
            assert below <= truth <= above
            assert above - below < truth * mpmath.mpf(2) ** -170


class TestAgainstExactFractions:
    """Two routes: the oracle enumerates the counts of the protocol, the proof uses identity (★)."""

    @settings(deadline=None, max_examples=100)
    @given(laws(), st.integers(1, 6), st.fractions(0, 2, max_denominator=50), st.integers(-6, 6))
    def test_yes_and_no_are_right(
        self, law: tuple[list[Fraction], list[Fraction], list[Fraction]], users: int, epsilon: Fraction, off: int
    ) -> None:
        """δ a hair or much above or below the truth, at rationals that enclose e^ε."""
        low, high = (Fraction(int(side.p), int(side.q)) for side in bracket_exponential(epsilon))
        most, least = (hockey_stick_of_counts(*law, users, ratio) for ratio in (low, high))
        delta = most * (1 + Fraction(off, abs(off)) * Fraction(1, 10 ** (2 * abs(off)))) if off else most
        finding = decide_divergence(classes_of(*law), users, epsilon, delta)
        if finding.verdict is Verdict.YES:
            assert least <= delta
        if finding.verdict is Verdict.NO:
            assert most > delta
        if off:
            assert finding.verdict is (Verdict.YES if off > 0 or most == 0 else Verdict.NO)

    @settings(deadline=None, max_examples=15)
    @given(
        st.lists(st.tuples(st.integers(-9, 9), st.integers(1, 9)), min_size=2, max_size=4, unique_by=lambda a: a[0]),
        st.integers(2, 12),
    )
    def test_every_route_encloses_the_mean(self, atoms: list[tuple[int, int]], users: int) -> None:
        """Enumeration is exact; the binomial sums and the contour sum hold the exact value between their sides."""
        values = [Fraction(value) for value, _ in atoms]
        weights = shares([weight for _, weight in atoms])
        truth = rational(positive_part_mean(values, weights, users))
        exact = [(rational(value), rational(weight)) for value, weight in zip(values, weights, strict=True)]
        assert enumerate_counts(exact, users) == truth
        with precision(256):
            assert sum_binomials(exact, users).overlaps(arb(truth))
            if max(values) > 0 > min(values):
                line = ContourSum([(arb(value), arb(weight)) for value, weight in exact], users)
                for smoothing in (1e-1, 1e-2):
                    sides = line.enclose(smoothing)
                    assert sides is not None
                    assert sides.lower <= arb(truth) <= sides.upper
                    # Few summands on a lattice: their kinks cost more than smoothing costs many.
                    assert sides.upper - sides.lower <= 30 * smoothing * sides.upper

    def test_balls_are_as_good_as_fractions(self) -> None:
        """A law known to some digits only is proved too, by every route."""
        third = Fraction(1, 3)
        law = classes_of([third * 2, third], [third, third * 2], [Fraction(1, 5), Fraction(1, 7)])
        with precision(300):
            balls = [tuple(arb(number) + arb(0, 1e-60) for number in c) for c in law[:2]] + [
                (arb(0), arb(0), arb(law[2][2]))
            ]
            for users in (1, 4, 60, 5000):
                for delta, verdict in ((Fraction(1, 3), Verdict.YES), (Fraction(1, 10**9), Verdict.NO)):
                    for classes in (law, balls):
                        assert decide_divergence(classes, users, Fraction(1, 50), delta).verdict is verdict


class TestLargeLaws:
    """Many values: the matching of pairs."""

    def test_a_law_of_many_values(self) -> None:
        """Fifteen values, against the enumeration of three messages."""
        values = [Fraction(k * k - 60, 7) for k in range(15)]
        weights = shares([1 + k % 4 for k in range(15)])
        truth = rational(positive_part_mean(values, weights, 3))
        with precision(200):
            atoms = [(arb(rational(v)), arb(rational(w))) for v, w in zip(values, weights, strict=True)]
            sides = ContourSum(atoms, 3).enclose(1e-2)
            assert sides is not None
            assert sides.lower <= arb(truth) <= sides.upper


def test_a_message_that_nobody_hides_counts_in_full() -> None:
    """Where the others never send what user 1 may send, no number of users helps."""
    half = Fraction(1, 2)
    law = classes_of([half, half, Fraction(0)], [Fraction(0), half, half], [Fraction(0), Fraction(1), Fraction(0)])
    assert decide_divergence(law, 10**6, Fraction(1), Fraction(499, 1000)).verdict is Verdict.NO
    assert decide_divergence(law, 10**6, Fraction(1), half).verdict is Verdict.YES


def imported_by(folder: Path) -> set[tuple[str, str]]:
    """File and name of every import in a folder."""
    found = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            found |= {(file.name, name) for name in names}
    return found


def test_the_engine_is_not_imported() -> None:
    """Nothing under certificate/ imports the modules whose numbers it checks."""
    for file, name in imported_by(Path(str(shuffledp.certificates.__file__)).parent):
        ours = not name.startswith("shuffledp_verify.")
        assert not (ours and FORBIDDEN & set(name.split("."))), f"{file} imports {name}"


def test_the_proof_shares_nothing_with_the_engine() -> None:
    """Nothing of the package: FLINT, the standard library and its own files."""
    folder = Path(str(shuffledp_verify.__file__)).parent
    modules = {
        node.module or "" if isinstance(node, ast.ImportFrom) else alias.name
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    outside = {name.split(".")[0] for name in modules} - sys.stdlib_module_names
    assert outside == {"flint", "shuffledp_verify"}


def test_both_take_one_lock_for_the_precision() -> None:
    """It is global to FLINT, whoever sets it."""
    assert shuffledp_verify.arithmetic._LOCK is ball_arithmetic._LOCK


@pytest.mark.parametrize("users", [10**9, 10**12])
def test_many_users(users: int) -> None:
    """At large n the divergence is that of a normal variable: δ(ε) of a Gaussian pair, to a part in a thousand."""
    law = classes_of(
        [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)], [Fraction(1, 2), Fraction(1, 2)]
    )
    mu = 1 / math.sqrt(users)
    epsilon = Fraction(5 * mu)
    normal = mpmath.ncdf(mu / 2 - 5) - mpmath.exp(5 * mu) * mpmath.ncdf(-mu / 2 - 5)
    about = Fraction(float(normal))
    assert decide_divergence(law, users, epsilon, about * Fraction(1001, 1000)).verdict is Verdict.YES
    assert decide_divergence(law, users, epsilon, about * Fraction(999, 1000)).verdict is Verdict.NO
