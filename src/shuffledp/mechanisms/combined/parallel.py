"""Several queries to the same users, each of whom answers one; laws of such mixtures of randomizers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np
from flint import arb, fmpq

from shuffledp._core import validation
from shuffledp._core.validation import Array, Floats, checked
from shuffledp.mechanisms.base.estimator import Estimate
from shuffledp.mechanisms.base.law import Law
from shuffledp.mechanisms.base.mechanism import Mechanism, MultiQueryCapability, OutputTable
from shuffledp.mechanisms.base.seed_compression import exact_proposals
from shuffledp.mechanisms.combined._parallel_parts import (
    Query,
    QueryColumn,
    QuerySetDomain,
    QuerySetEncoding,
    QuerySetEstimator,
    QuerySetProposal,
)
from shuffledp.mechanisms.frequency.randomized_response import KRR
from shuffledp.mechanisms.frequency.unary_encoding import OUE
from shuffledp.mechanisms.mean.laplace import Laplace
from shuffledp.numerics.ball_arithmetic import float_above, to_rational
from shuffledp.privacy.dominating_pairs import Classes, HidingPair, MessageClass, exact_pair
from shuffledp.privacy.variation_ratio import VariationRatio
from shuffledp.sampling.random_sources import RandomSource, SystemSource

# --- Mixtures: with known probability one of several randomizers, named in the message ---


MAX_COMBINATIONS = 64
"""Largest number of combinations of the parts' pairs that are examined one by one."""
MAX_DENOMINATOR = 1 << 62


def normalize_weights(who: str, weights: Sequence[Any] | None, parts: int) -> tuple[Fraction, ...]:
    """Returns weights, numbers or texts of fractions, as exact probabilities that sum to 1; equal ones by default.

    They are rounded to multiples of 2^-62 if the exact fractions are too long.

    Raises:
        ValueError: If there are not as many weights as parts, or one is not a positive finite number.
    """
    if weights is None:
        return (Fraction(1, parts),) * parts
    if len(weights) != parts:
        raise ValueError(f"{who}: expected a weight for each of {parts} mechanisms, got {len(weights)}.")
    try:
        exact = [Fraction(w) if isinstance(w, str) else validation.exact(who, "weights", w) for w in weights]
    except (TypeError, ValueError, ZeroDivisionError):
        raise ValueError(f"{who}: weights must be finite numbers, got {weights!r}.") from None
    if min(exact) <= 0:
        raise ValueError(f"{who}: weights must be above 0, got {float(min(exact))!r}.")
    shares = [weight / sum(exact) for weight in exact]
    if lcm(*(share.denominator for share in shares)) <= MAX_DENOMINATOR:
        return tuple(shares)
    units = [max(1, int(share * MAX_DENOMINATOR)) for share in shares]
    units[units.index(max(units))] += MAX_DENOMINATOR - sum(units)
    return tuple(Fraction(unit, MAX_DENOMINATOR) for unit in units)


@dataclass(frozen=True)
class MixtureLaw(Law):
    """Law of a mixture: a message of law k with probability `shares[k]`, which names its law; see `mixture_pairs`."""

    laws: tuple[Law, ...]
    shares: tuple[Fraction, ...]

    @property
    def covers_mixtures(self) -> bool:  # type: ignore[override]
        return all(law.covers_mixtures for law in self.laws)

    @property
    def tight(self) -> bool:  # type: ignore[override]
        return self.covers_mixtures and all(law.tight for law in self.laws)

    def variation_ratio(self) -> VariationRatio:
        known = [covering_parameters(law) for law in self.laws]
        beta = sum((share * Fraction(one.beta) for share, one in zip(self.shares, known, strict=True)), Fraction(0))
        largest = max(one.largest_ratio for one in known)
        return VariationRatio(p=max(one.p for one in known), beta=float_above(beta), q=largest)

    def blankets(self) -> Sequence[HidingPair]:
        return mixture_pairs(self.laws, self.shares)

    def attacks(self) -> Sequence[HidingPair]:
        """Returns attacks on all parts at once, combining the datasets of the parts' own attacks in turn."""
        known = [list(law.attacks()) for law in self.laws]
        if not all(known):
            return []
        count = max(map(len, known))
        return [mix_pairs([pairs[turn % len(pairs)] for pairs in known], self.shares) for turn in range(count)]


def covering_parameters(law: Law) -> VariationRatio:
    """Returns parameters that hold for an unchanged value as well as for a changed one.

    A smaller `q_common` may hold for changes only: an unchanged value is hidden no better than by the largest ratio.
    """
    known = law.variation_ratio()
    return VariationRatio(p=known.p, beta=known.beta, q=known.largest_ratio)


def mix_pairs(pairs: Sequence[HidingPair], shares: Sequence[Fraction]) -> HidingPair:
    """Returns the pair of a mixture, where every user's message is of part k with probability `shares[k]`.

    Theorem: identity (★) for mixtures: where the message names its part, G = (first − e^ε·second)/hiding is that of the
    part, so the law of G is the mixture of the parts' laws.
    """
    symmetric = all(pair.symmetric for pair in pairs)
    weights = [to_rational(share) for share in shares]
    known = [pair.exact for pair in pairs if pair.exact is not None]
    if len(known) == len(pairs):
        merged: dict[tuple[fmpq, fmpq], list[fmpq]] = {}
        for weight, classes in zip(weights, known, strict=True):
            for first, second, hiding in classes:
                total = merged.setdefault((first / hiding, second / hiding), [fmpq(0)] * 3)
                for place, chance in enumerate((first, second, hiding)):
                    total[place] += weight * chance
        return exact_pair([(first, second, hiding) for first, second, hiding in merged.values()], symmetric=symmetric)

    return HidingPair(MixedClasses(tuple(pairs), tuple(shares)), symmetric)


@dataclass(frozen=True)
class MixedClasses:
    """Message classes of several pairs, weighted by their shares."""

    pairs: tuple[HidingPair, ...]
    shares: tuple[Fraction, ...]

    def __call__(self) -> Classes:
        return [
            MessageClass(*(arb(to_rational(share)) * chance for chance in one))
            for share, pair in zip(self.shares, self.pairs, strict=True)
            for one in pair.classes()
        ]


def mixture_pairs(parts: Sequence[Law], shares: Sequence[Fraction]) -> list[HidingPair]:
    """Returns, for each combination of the parts' worst pairs, the pair of the mixture against its blanket.

    The blanket of a mixture is the mixture of the blankets, and user 1's value may change in any way, or stay, in each
    part independently. The sum of a part's G's enters the positive part convexly, so pairs that are the largest in
    convex order suffice: the blankets of a part that states that they cover mixtures, else the pair of its
    variation-ratio parameters, of which every pair of its inputs is a post-processing.
    """
    pairs = [_directed_pairs(part) for part in parts]
    if prod(map(len, pairs)) > MAX_COMBINATIONS:
        pairs = [own if len(own) == 1 else _parameter_pairs(part) for part, own in zip(parts, pairs, strict=True)]
    combinations = (combination for combination in product(*pairs) if _is_canonical_direction(combination))
    return [mix_pairs([pair for pair, _ in combination], shares) for combination in combinations]


DirectedPair = tuple[HidingPair, bool]
"""A pair, and True if it is swapped."""


def _directed_pairs(part: Law) -> list[DirectedPair]:
    if not part.covers_mixtures:
        return _parameter_pairs(part)
    return [directed for pair in part.blankets() for directed in _both_directions(pair)]


def _both_directions(pair: HidingPair) -> Iterator[DirectedPair]:
    yield pair, False
    if not pair.symmetric:
        yield pair.swapped(), True


def _parameter_pairs(part: Law) -> list[DirectedPair]:
    # With one q for all classes the pair is the same at every ε.
    return [(covering_parameters(part).pair(0.0), False)]


def _is_canonical_direction(combination: Sequence[DirectedPair]) -> bool:
    """Returns False if the combination with all pairs swapped suffices: bounds examine both directions."""
    turns = [swapped for pair, swapped in combination if not pair.symmetric]
    return not turns or not turns[0]


MAX_QUERIES = 256
MAX_TABLE_INPUTS = 256


def check_mechanisms(who: str, name: str, value: Any) -> tuple[Mechanism, ...]:
    """Returns the mechanisms of 1 to `MAX_QUERIES` queries; raises TypeError or ValueError for anything else."""
    if not isinstance(value, Sequence) or not 1 <= len(value) <= MAX_QUERIES:
        raise ValueError(f"{who}: expected 1 to {MAX_QUERIES} {name} in a list, got {value!r}.")
    for mechanism in value:
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"{who}: expected {name} such as KRR(1.0, 16), got {mechanism!r}.")
    return tuple(value)


@dataclass(frozen=True)
class Parallel(Mechanism, MultiQueryCapability):
    """Combination of several queries, of which each user answers a random one with its own mechanism at full local ε.

    A query is drawn by an exactly uniform whole number. The message is the query's number and the mechanism's message,
    padded to one length.

    Values: one column for each query, in the form that its mechanism takes; in Python a sequence of columns, in
    canonical form one row of numbers per user.

    The estimate puts the queries' estimates in one row, which `queries` splits. A query that is drawn with probability
    π counts 1/π times, so sums and means over all users are unbiased whoever answers.

    Privacy: the law of G in (★) is the mixture of the queries' laws, whatever the user's other answers are.

    Theorem: [VR] Theorem 6.1, corrected: p = q = max e^ε_k, β̄ = Σ π_k·β_k in the sound reduction.
    Deviates: the reduction of [VR] Theorem 4.2 that the print uses is not an upper bound (docs/errata.md, VR-1).

    Args:
        mechanisms: One mechanism per query, 1 to 256, each with one message per user and a finite local ε.
        weights: Relative probabilities of the queries, uniform by default; exact fractions of their sum, or multiples
            of 2^-62 if those are too long.

    Raises:
        TypeError: If one of `mechanisms` is not a mechanism.
        ValueError: If there are none or more than 256 mechanisms, one sends several messages or has no finite local ε,
            or the weights do not fit.

    Example:
        >>> import shuffledp as sdp
        >>> mechanism = sdp.Parallel([sdp.KRR(1.0, options=4), sdp.Piecewise(1.0)], weights=[1, 3])
        >>> [str(share) for share in mechanism.shares]
        ['1/4', '3/4']
        >>> mechanism.check([[3, 0], [0.5, -0.25]]).tolist()
        [[3.0, 0.5], [0.0, -0.25]]
        >>> f"{sdp.amplify(mechanism, users=10_000).epsilon(delta=1e-6).upper:.4f}"
        '0.0384'
    """

    mechanisms: Sequence[Mechanism] = field(metadata=checked(check_mechanisms))
    weights: Sequence[Any] | None = None
    epsilon: float = field(init=False)

    name = "parallel"
    task = "several queries"
    summary = "one of several queries, drawn at random, by its own mechanism"
    use_case = "For several questions, of which each user answers one."
    aliases = ("several-queries",)
    has_numeric_settings = False
    combines_mechanisms = True
    tunable = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for mechanism in self.mechanisms:
            if mechanism.messages_per_user != 1:
                # Only a drawn user adds noise, and dummies of other queries hide nobody: answering all is never worse.
                raise ValueError(
                    f"Parallel: every mechanism must send one message a user, got {mechanism!r}; where several are "
                    f"sent, AllAnswered has less error."
                )
            if not math.isfinite(getattr(mechanism, "epsilon", math.inf)):
                raise ValueError(f"Parallel: every mechanism needs a finite local epsilon, got {mechanism!r}.")
        object.__setattr__(self, "weights", normalize_weights("Parallel", self.weights, len(self.mechanisms)))
        object.__setattr__(self, "epsilon", max(mechanism.epsilon for mechanism in self.mechanisms))

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The probability of each query."""
        assert self.weights is not None
        return tuple(self.weights)

    @property
    def has_table(self) -> bool:  # type: ignore[override]
        return all(mechanism.has_table for mechanism in self.mechanisms)

    # --- Parts ---

    @cached_property
    def domain(self) -> QuerySetDomain:
        return QuerySetDomain("Parallel", tuple(QueryColumn("Parallel", one.domain) for one in self.mechanisms))

    @cached_property
    def law(self) -> MixtureLaw:
        return MixtureLaw(tuple(one.law for one in self.mechanisms), self.shares)

    @cached_property
    def encoding(self) -> QuerySetEncoding:
        return QuerySetEncoding("Parallel", tuple(one.encoding for one in self.mechanisms))

    @cached_property
    def estimator(self) -> QuerySetEstimator:
        queries = map(_build_query, self.domain.queries, self.mechanisms, self.shares)
        return QuerySetEstimator(self.domain, self.encoding, tuple(queries))

    @cached_property
    def proposal(self) -> QuerySetProposal | None:
        """The mixture of the queries' proposal laws, if each has one that bounds every ratio."""
        known = exact_proposals([one.proposal for one in self.mechanisms])
        return None if known is None else QuerySetProposal(self.domain, self.encoding, known, self.shares)

    def queries(self, estimate: Estimate) -> list[Estimate]:
        return self.estimator.split_estimate(estimate)

    def query_variance(self, number: int, values: Array) -> Floats:
        return self.estimator.queries[number].variance(values)

    @property
    def assumption(self) -> str:
        """The assumptions of the mechanisms' guarantees, in words; empty if there are none."""
        known = (one.assumption for one in self.mechanisms)
        return " ".join(dict.fromkeys(sentence for sentence in known if sentence))

    # --- Running the mechanism ---

    def randomize(self, values: Array, source: RandomSource) -> Array:
        """Returns one message per user, a row of bytes."""
        drawn = self._draw_queries(len(values), source)
        messages = np.zeros((len(values), self.encoding.byte_length), dtype=np.uint8)
        columns = zip(self.mechanisms, self.domain.split_columns(values), strict=True)
        for number, (mechanism, column) in enumerate(columns):
            own = np.flatnonzero(drawn == number)
            if own.size:
                self.encoding.write_messages(messages, number, own, mechanism.randomize(column[own], source))
        return messages

    def _draw_queries(self, users: int, source: RandomSource) -> Array:
        whole = math.lcm(*(share.denominator for share in self.shares))
        ends = np.cumsum([int(share * whole) for share in self.shares])
        return np.searchsorted(ends, source.integers_below(whole, users), side="right")

    # --- Tests and the catalogue ---

    def table(self) -> OutputTable:
        tables = [mechanism.table() for mechanism in self.mechanisms]
        inputs = math.prod(len(table.inputs) for table in tables)
        if inputs > MAX_TABLE_INPUTS:
            raise ValueError(f"Parallel: a table needs at most {MAX_TABLE_INPUTS} inputs, got {inputs}.")
        combinations = list(product(*(range(len(table.inputs)) for table in tables)))
        columns = [table.inputs[[row[k] for row in combinations]] for k, table in enumerate(tables)]
        rows = tuple(tuple(self._table_row(tables, row)) for row in combinations)
        return OutputTable(self.check(columns), self._all_messages(tables), rows)

    def _table_row(self, tables: list[OutputTable], row: tuple[int, ...]) -> Iterator[Fraction]:
        for table, share, number in zip(tables, self.shares, row, strict=True):
            yield from (share * chance for chance in table.probabilities[number])

    def _all_messages(self, tables: list[OutputTable]) -> Array:
        parts = []
        for number, table in enumerate(tables):
            rows = np.zeros((len(table.messages), self.encoding.byte_length), dtype=np.uint8)
            self.encoding.write_messages(rows, number, slice(None), table.messages)
            parts.append(rows)
        return np.concatenate(parts)

    @classmethod
    def examples(cls) -> Sequence[Parallel]:
        return [
            cls([KRR(1.0, 3), KRR(1.0, 2)]),
            cls([OUE(1.0, 2), KRR(0.5, 2)], [1, 3]),
            cls([KRR(2.0, 2), Laplace(1.0, grid=1)], [0.7, 0.3]),
        ]


def _build_query(column: QueryColumn, mechanism: Mechanism, share: Fraction) -> Query:
    """Returns the estimator of one query; the shape of its statistic is found by running the mechanism once."""
    statistic = np.asarray(mechanism.accumulate(mechanism.randomize(column.audit_pair, SystemSource())))
    return Query(column, mechanism.estimator, share, statistic.shape, statistic.dtype.str)
