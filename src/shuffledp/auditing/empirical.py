"""A lower bound on ε that samples prove: the best event found on one half, counted on the other.

For any event E, (ε, 0)-local privacy means P0(E) ≤ e^ε·P1(E). The first half of the samples proposes events: messages
are ranked by several scores that estimate the likelihood ratio, and each score's best threshold is kept. The second
half, which had no say in the choice, gives a lower limit of P0(E) and an upper limit of P1(E). The errors of all
limits together stay below 1 − confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffledp import argument
from shuffledp.auditing import interval
from shuffledp.auditing.subject import MechanismSubject, Rows, Subject
from shuffledp.mechanisms.mechanism import Mechanism
from shuffledp.readable import Readable, Row

Scores = NDArray[np.float64]
Scorer = Callable[[Rows], Scores]
MOST_THRESHOLDS = 200
CHUNK = 10_000


@dataclass(frozen=True)
class AuditResult(Readable):
    """What an audit proved.

    ``claimed``: the local ε that it was held against. ``confidence``: how sure ``epsilon_lower`` is. ``samples``:
    messages drawn for each of the two inputs. ``event``: the messages that tell the two inputs apart best. ``title``:
    what was audited.

    >>> import shuffledp as sdp
    >>> result = sdp.AuditResult(1.93, claimed=1.0, confidence=0.999, samples=200_000, event="message 0", title="KRR")
    >>> result.violated
    True
    >>> result.verdict
    'BROKEN: the true ε is above the claimed 1'
    """

    epsilon_lower: float
    """With the stated confidence the true local ε is at least this."""
    claimed: float
    confidence: float
    samples: int
    event: str
    title: str

    @property
    def violated(self) -> bool:
        return self.epsilon_lower > self.claimed

    @property
    def verdict(self) -> str:
        if self.violated:
            return f"BROKEN: the true ε is above the claimed {self.claimed:g}"
        return f"no violation of ε = {self.claimed:g} found"

    @property
    def heading(self) -> str:
        return "Audit of a local randomizer"

    def summary(self) -> list[Row]:
        """What is to be read, a name and a text each."""
        return [
            ("verdict", self.verdict),
            ("local ε is at least", f"{self.epsilon_lower:.4f}"),
            ("claimed", f"{self.claimed:g}"),
            ("confidence", f"{self.confidence:g}"),
            ("messages drawn", f"2 × {self.samples:,}"),
            ("best event", self.event),
            ("what was audited", self.title),
        ]


def audit(
    mechanism: Mechanism | Subject,
    claimed: float | None = None,
    *,
    samples: float = 200_000,
    confidence: float = 0.999,
    inputs: Sequence[Any] | None = None,
) -> AuditResult:
    """Draw messages for two inputs and report the largest local ε that they prove.

    ``mechanism``: a mechanism, or any ``Subject`` (``CommandSubject`` for a program). ``claimed``: the ε to hold it
    against, by default the mechanism's own. ``samples``: messages for each of the two inputs. ``confidence``: how sure
    the lower bound is; a sound randomizer is accused with at most the remaining probability. ``inputs``: the two
    inputs, by default two that the mechanism finds hard to hide from each other. Messages are drawn from the operating
    system's randomness, so that the number differs from run to run.

    >>> import shuffledp as sdp
    >>> from shuffledp.auditing.empirical import audit
    >>> found = audit(sdp.KRR(1.0, options=4), samples=4000)
    >>> found.verdict, 0.3 < found.epsilon_lower
    ('no violation of ε = 1 found', True)
    """
    subject = _subject(mechanism, inputs)
    claimed = _claim(mechanism) if claimed is None else claimed
    claimed = argument.non_negative("audit", "claimed", claimed, up=True)
    count = argument.count("audit", "samples", samples, at_least=100)
    confidence = argument.open_probability("audit", "confidence", confidence, up=True)
    draws = _without_padding([subject.draw(which, count) for which in (0, 1)])
    half = count // 2
    train = [rows[:half] for rows in draws]
    test = [rows[half:] for rows in draws]
    proposals = list(_proposals(train))
    error = (1.0 - confidence) / (2 * len(proposals))
    best, event = 0.0, "nothing told the inputs apart"
    for name, which, scorer, threshold in proposals:
        hits = [int((scorer(test[side]) >= threshold).sum()) for side in (which, 1 - which)]
        proved = _epsilon(hits[0], hits[1], len(test[0]), error)
        if proved > best:
            best, event = proved, f"{name}, likelier under input {which}"
    return AuditResult(best, claimed, confidence, count, event, subject.title)


def _subject(mechanism: Mechanism | Subject, inputs: Sequence[Any] | None) -> Subject:
    if isinstance(mechanism, Subject):
        if inputs is not None:
            raise ValueError("audit: a Subject has its own two inputs; leave inputs out.")
        return mechanism
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"audit: expected a mechanism or a Subject, got {mechanism!r}.")
    if inputs is None:
        return MechanismSubject(mechanism, mechanism.probe())
    if len(inputs) != 2:
        raise ValueError(f"audit: inputs must be two, got {len(inputs)}.")
    return MechanismSubject(mechanism, mechanism.check(inputs))


def _claim(mechanism: Mechanism | Subject) -> float:
    """What a mechanism promises for one user's report alone."""
    if isinstance(mechanism, Subject):
        raise ValueError("audit: a Subject promises nothing of itself; give claimed.")
    if mechanism.local_epsilon is None:
        raise ValueError(f"audit: {mechanism.name} promises nothing for one user's report alone; give claimed.")
    return mechanism.local_epsilon


def _without_padding(draws: list[Rows]) -> list[Rows]:
    """Without the last bytes that are zero in every message: they tell nothing and cost time."""
    used = np.flatnonzero(draws[0].any(axis=0) | draws[1].any(axis=0))
    width = int(used[-1]) + 1 if used.size else 1
    return [np.ascontiguousarray(rows[:, :width]) for rows in draws]


def _epsilon(hits_first: int, hits_second: int, trials: int, error: float) -> float:
    """log of the smallest likely ratio of the two probabilities of an event."""
    low = interval.at_least(hits_first, trials, error)
    high = interval.at_most(hits_second, trials, error)
    return math.log(low / high) if low > 0 else 0.0


def _proposals(train: list[Rows]) -> Iterator[tuple[str, int, Scorer, float]]:
    """(name, input under which it is likelier, score, threshold) for each score and direction."""
    for name, make in KINDS:
        for which in (0, 1):
            scorer = make(train[which], train[1 - which])
            threshold = _best_threshold(scorer(train[which]), scorer(train[1 - which]))
            if threshold is not None:
                yield name, which, scorer, threshold


def _best_threshold(first: Scores, second: Scores) -> float | None:
    """The threshold whose event promises the largest ratio, judged by the same limits on the training half."""
    candidates = np.unique(np.concatenate([first, second]))
    if len(candidates) > MOST_THRESHOLDS:
        candidates = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, MOST_THRESHOLDS)))
    best: tuple[float, float] | None = None
    ordered = np.sort(first), np.sort(second)
    for threshold in candidates.tolist():
        hits = [len(scores) - int(np.searchsorted(scores, threshold)) for scores in ordered]
        promise = _epsilon(hits[0], hits[1], len(first), 0.01)
        if best is None or promise > best[0]:
            best = (promise, threshold)
    return None if best is None else best[1]


def _log_ratio(first: NDArray[np.int64], second: NDArray[np.int64]) -> Scores:
    """Smoothed log ratio of counts."""
    return np.asarray(np.log((first + 0.5) / (second + 0.5)))


def _by_message(first: Rows, second: Rows) -> Scorer:
    """The log ratio of how often the very message was seen; 0 for messages never seen."""
    kinds, inverse = np.unique(np.concatenate([_as_keys(first), _as_keys(second)]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(kinds)) for part in np.split(inverse, [len(first)])]
    ratios = _log_ratio(counts[0], counts[1])

    def score(rows: Rows) -> Scores:
        keys = _as_keys(rows)
        place = np.minimum(np.searchsorted(kinds, keys), len(kinds) - 1)
        return np.where(kinds[place] == keys, ratios[place], 0.0)

    return score


def _by_bits(first: Rows, second: Rows) -> Scorer:
    """The sum of the bits' log ratios: the best score where bits are independent."""
    ones, zeros = _bit_ratios(first, second)

    def score(rows: Rows) -> Scores:
        parts = [np.unpackbits(part, axis=1) @ (ones - zeros) for part in _in_chunks(rows)]
        return np.asarray(np.round(np.concatenate(parts) + zeros.sum(), 6))

    return score


def _by_one_bit(first: Rows, second: Rows) -> Scorer:
    """The one bit that says most."""
    ones, zeros = _bit_ratios(first, second)
    place = int(np.argmax(np.maximum(ones, zeros)))

    def score(rows: Rows) -> Scores:
        bit = (rows[:, place // 8] >> (7 - place % 8)) & 1
        return np.asarray(np.where(bit == 1, ones[place], zeros[place]))

    return score


def _by_size(first: Rows, second: Rows) -> Scorer:
    """The message read as a number, in the direction in which the first input's messages lie."""
    sign = 1.0 if _numbers(first).mean() >= _numbers(second).mean() else -1.0
    return lambda rows: sign * _numbers(rows)


def _numbers(rows: Rows) -> Scores:
    """Text rows as the numbers they spell, if all do; other rows as big-endian integers of their first 8 bytes."""
    try:
        return _as_keys(rows).astype(np.float64)
    except ValueError:
        wide = np.zeros((len(rows), 8), dtype=np.uint8)
        taken = rows[:, :8]
        wide[:, 8 - taken.shape[1] :] = taken
        return wide.view(">u8").reshape(-1).astype(np.float64)


KINDS: tuple[tuple[str, Callable[[Rows, Rows], Scorer]], ...] = (
    ("whole message", _by_message),
    ("bits taken together", _by_bits),
    ("single bit", _by_one_bit),
    ("size of the message as a number", _by_size),
)


def _bit_ratios(first: Rows, second: Rows) -> tuple[Scores, Scores]:
    """Log ratios of seeing a 1, and of seeing a 0, per bit."""
    counts = [
        sum(np.unpackbits(part, axis=1).sum(axis=0, dtype=np.int64) for part in _in_chunks(rows))
        for rows in (first, second)
    ]
    return _log_ratio(counts[0], counts[1]), _log_ratio(len(first) - counts[0], len(second) - counts[1])


def _as_keys(rows: Rows) -> NDArray[np.bytes_]:
    """Each row as one comparable item."""
    whole = np.ascontiguousarray(rows)
    return whole.view(f"S{whole.shape[1]}").reshape(-1)


def _in_chunks(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]
