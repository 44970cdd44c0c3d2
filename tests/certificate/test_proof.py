"""The proof against exact fractions: it never says yes when δ is too small, nor no when it is enough."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import pytest
from flint import arb, fmpq
from hypothesis import given, settings, strategies as st

import shuffledp.certificate
from shuffledp.certificate.counts import Number, binomial_sums, enumerated
from shuffledp.certificate.line import Line
from shuffledp.certificate.proof import Verdict, exponential, judge
from shuffledp.numerics.ball import precision
from tests.oracle.exact import hockey_stick_of_counts, positive_part_mean

FORBIDDEN = {"contour", "walk", "double_walk", "enumeration", "expectation", "inversion", "binomial", "root"}
FORBIDDEN |= {"worst_crowd", "many_crowds", "contour_floats", "all_crowds"}
SECOND_PROOF = ("proof", "counts", "line", "crowd_hull", "crowds", "chords", "coin_sizes", "drawn_round")


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
        low, high = exponential(x)
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
        low, high = (Fraction(int(side.p), int(side.q)) for side in exponential(epsilon))
        most, least = (hockey_stick_of_counts(*law, users, ratio) for ratio in (low, high))
        delta = most * (1 + Fraction(off, abs(off)) * Fraction(1, 10 ** (2 * abs(off)))) if off else most
        finding = judge(classes_of(*law), users, epsilon, delta)
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
        assert enumerated(exact, users) == truth
        with precision(256):
            assert binomial_sums(exact, users).overlaps(arb(truth))
            if max(values) > 0 > min(values):
                line = Line([(arb(value), arb(weight)) for value, weight in exact], users)
                for smoothing in (1e-1, 1e-2):
                    sides = line.sides(smoothing)
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
                        assert judge(classes, users, Fraction(1, 50), delta).verdict is verdict


class TestLargeLaws:
    """Many values: the matching of pairs."""

    def test_a_law_of_many_values(self) -> None:
        """Fifteen values, against the enumeration of three messages."""
        values = [Fraction(k * k - 60, 7) for k in range(15)]
        weights = shares([1 + k % 4 for k in range(15)])
        truth = rational(positive_part_mean(values, weights, 3))
        with precision(200):
            atoms = [(arb(rational(v)), arb(rational(w))) for v, w in zip(values, weights, strict=True)]
            sides = Line(atoms, 3).sides(1e-2)
            assert sides is not None
            assert sides.lower <= arb(truth) <= sides.upper


def test_a_message_that_nobody_hides_counts_in_full() -> None:
    """Where the others never send what user 1 may send, no number of users helps."""
    half = Fraction(1, 2)
    law = classes_of([half, half, Fraction(0)], [Fraction(0), half, half], [Fraction(0), Fraction(1), Fraction(0)])
    assert judge(law, 10**6, Fraction(1), Fraction(499, 1000)).verdict is Verdict.NO
    assert judge(law, 10**6, Fraction(1), half).verdict is Verdict.YES


def test_the_engine_is_not_imported() -> None:
    """Nothing under certificate/ imports the modules whose numbers it checks."""
    folder = Path(str(shuffledp.certificate.__file__)).parent
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            for name in names:
                assert not FORBIDDEN & set(name.split(".")), f"{file.name} imports {name}"


def test_what_the_proof_shares_with_the_engine() -> None:
    """Of the package: its own files, and what sets the working precision."""
    folder = Path(str(shuffledp.certificate.__file__)).parent
    shared = {
        (node.module, alias.name)
        for name in SECOND_PROOF
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("shuffledp.")
        for alias in node.names
        if not str(node.module).startswith("shuffledp.certificate.")
    }
    assert shared == {("shuffledp.numerics.ball", "precision")}


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
    assert judge(law, users, epsilon, about * Fraction(1001, 1000)).verdict is Verdict.YES
    assert judge(law, users, epsilon, about * Fraction(999, 1000)).verdict is Verdict.NO
