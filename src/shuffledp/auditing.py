"""Empirical audit of a local randomizer: a statistically valid lower bound on ε from samples.

For any event E, (ε, 0)-local privacy means P0(E) ≤ e^ε·P1(E). The first half of the samples proposes events: several
scores that estimate the likelihood ratio rank the messages, and each score's best threshold defines an event. The
second half, which had no influence on the choice, gives a lower confidence limit of P0(E) and an upper one of P1(E).
The error probabilities of all limits together stay below 1 − confidence.
"""

from __future__ import annotations

import math
import os
import selectors
import shlex
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from shuffledp._core import validation
from shuffledp._core.errors import ShuffledpError
from shuffledp._core.results_and_value_objects import PrintableResult, Row
from shuffledp.mechanisms.base.mechanism import Mechanism

# --- Subjects: a mechanism, or an external program under limits ---


CHUNK_BYTES = 1 << 16
"""Bytes written or read at a time."""
STDERR_TAIL_BYTES = 1 << 12
"""Number of bytes of stderr that are kept, the last ones."""


@dataclass(frozen=True)
class ProgramLimits:
    """Limits of a program: the lines that it may write to stdout, and the time it may take."""

    lines: int
    width: int
    """Largest number of bytes of a line, its end not counted."""
    seconds: float

    def describe_excess(self, written: bytearray, lines: int) -> str | None:
        """Returns the limit that the output so far exceeds, in words; None if it exceeds none."""
        full = len(written) > self.lines * (self.width + 2)
        # Lines may also end in a carriage return, which was not counted.
        if lines > self.lines or (full and len(written.splitlines()) > self.lines):
            return f"the command was given {self.lines} values and wrote more messages"
        end = written[-self.width - 1 :]
        endless = len(end) > self.width and b"\n" not in end and b"\r" not in end
        # So many bytes in at most the allowed number of lines: one of them is too long.
        if endless or full:
            return f"messages may have at most {self.width} bytes, got a longer one"
        return None


def run_program(words: Sequence[str], line: bytes, limits: ProgramLimits) -> bytes:
    """Runs a program, writes the same line to its stdin ``limits.lines`` times, and returns its stdout."""
    try:
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise ShuffledpError(f"audit: could not start {words[0]!r}: {error.strerror}.") from None
    with ExitStack() as cleanup:
        # Whatever happens, the pipes are closed and the child, and nothing else, is killed.
        cleanup.callback(child.wait)
        cleanup.callback(child.kill)
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        exchange = _ProgramExchange(child.stdin, child.stdout, child.stderr, line, limits)
        cleanup.callback(exchange.close)
        written = exchange.run()
        status = exchange.status(child)
    if status != 0:
        message = "".join(
            f": {text}" for text in exchange.stderr_tail.decode(errors="replace").strip().splitlines()[-1:]
        )
        raise ShuffledpError(f"audit: the command ended with status {status}{message.rstrip('.')}.")
    return written


@dataclass
class _ProgramExchange:
    """The exchange with a running program: writes its input, reads its output, checks the limits after each piece."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    line: bytes
    limits: ProgramLimits
    stderr_tail: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.limits.seconds
        self._lines_left = self.limits.lines
        self._pending_input = memoryview(b"")
        self._selector = selectors.DefaultSelector()
        for pipe, event in (
            (self.stdin, selectors.EVENT_WRITE),
            (self.stdout, selectors.EVENT_READ),
            (self.stderr, selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, event)

    def run(self) -> bytes:
        """Returns everything that the program writes until it closes stdout and stderr."""
        written, lines = bytearray(), 0
        while self._has_open_output:
            for key, _ in self._selector.select(self._time_left()):
                if key.fileobj is self.stdin:
                    self._write_input()
                elif piece := self._read_output(key.fileobj):
                    if key.fileobj is self.stderr:
                        self.stderr_tail = (self.stderr_tail + piece)[-STDERR_TAIL_BYTES:]
                    else:
                        written += piece
                        lines += piece.count(b"\n")
                        self._check_limits(written, lines)
        return bytes(written)

    def status(self, child: subprocess.Popen[bytes]) -> int:
        """Closes the program's stdin, waits for its end and returns its exit status."""
        self._close_input()
        try:
            return child.wait(self._time_left())
        except subprocess.TimeoutExpired:
            raise self._timeout_error() from None

    def close(self) -> None:
        self._selector.close()
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()

    @property
    def _has_open_output(self) -> bool:
        return any(key.fileobj is not self.stdin for key in self._selector.get_map().values())

    def _check_limits(self, written: bytearray, lines: int) -> None:
        excess = self.limits.describe_excess(written, lines)
        if excess is not None:
            raise ShuffledpError(f"audit: {excess}; the command was ended.")

    def _time_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._timeout_error()
        return left

    def _timeout_error(self) -> ShuffledpError:
        reason = f"the command took more than {self.limits.seconds:g} seconds for {self.limits.lines} values"
        return ShuffledpError(f"audit: {reason} and was ended; allow more time, or draw fewer samples.")

    def _write_input(self) -> None:
        """Writes as much as the pipe takes; a program that stops reading may still write."""
        if not self._pending_input:
            count = min(self._lines_left, max(1, CHUNK_BYTES // len(self.line)))
            self._lines_left -= count
            self._pending_input = memoryview(self.line * count)
        try:
            length = os.write(self.stdin.fileno(), self._pending_input)
        except BlockingIOError:
            return
        except BrokenPipeError:
            length = self._lines_left = 0
            self._pending_input = memoryview(b"")
        self._pending_input = self._pending_input[length:]
        if not self._pending_input and not self._lines_left:
            self._close_input()

    def _close_input(self) -> None:
        if not self.stdin.closed:
            self._selector.unregister(self.stdin)
            self.stdin.close()

    def _read_output(self, pipe: object) -> bytes:
        assert pipe is self.stdout or pipe is self.stderr
        stream = self.stdout if pipe is self.stdout else self.stderr
        try:
            piece = os.read(stream.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return b""
        if not piece:
            self._selector.unregister(stream)
        return piece


# --- Subjects ---


Rows = NDArray[np.uint8]

DEFAULT_TIMEOUT = 600.0
MAX_TOTAL_BYTES = 1 << 30
"""Largest size of all messages of one input, each padded to the full width."""


class Subject(ABC):
    """The object of an audit: two inputs, and fresh messages for each."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The description of the audited object, one line."""

    @abstractmethod
    def draw(self, which: int, count: int) -> Rows:
        """Returns ``count`` messages for input 0 or 1, one row of bytes each; all rows of all draws have one width."""


@dataclass(frozen=True)
class MechanismSubject(Subject):
    """A mechanism with two of its inputs."""

    mechanism: Mechanism
    inputs: NDArray[Any]

    @property
    def title(self) -> str:
        return f"{self.mechanism!r} on {self.inputs[0].tolist()} against {self.inputs[1].tolist()}"

    def draw(self, which: int, count: int) -> Rows:
        values = np.repeat(self.inputs[which : which + 1], count, axis=0)
        wire = self.mechanism.pack(self.mechanism.encode(values))
        # One row for each user: several messages of one user are one report.
        return wire.reshape(count, -1)


@dataclass(frozen=True)
class CommandSubject(Subject):
    """A program that reads one value per line on stdin and writes one message per line on stdout."""

    command: str
    inputs: tuple[str, str]
    width: int = 256
    """Largest message in bytes; shorter ones are padded with zero bytes."""
    seconds: float = DEFAULT_TIMEOUT
    """Largest time in seconds for the messages of one input."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", validation.count("audit", "width", self.width))
        object.__setattr__(self, "seconds", validation.positive_finite("audit", "seconds", self.seconds))

    @property
    def title(self) -> str:
        return f"{self.command} on {self.inputs[0]!r} against {self.inputs[1]!r}"

    def draw(self, which: int, count: int) -> Rows:
        try:
            words = shlex.split(self.command)
        except ValueError as error:
            raise ValueError(f"audit: cannot read the command {self.command!r}: {error}.") from None
        if not words:
            raise ValueError("audit: expected a command, got an empty text.")
        if count * self.width > MAX_TOTAL_BYTES:
            most = MAX_TOTAL_BYTES // self.width
            raise ValueError(f"audit: samples must be at most {most:,} for a command, got {count:,}.")
        line = f"{self.inputs[which]}\n".encode()
        lines = run_program(words, line, ProgramLimits(count, self.width, self.seconds)).splitlines()
        if len(lines) != count:
            raise ShuffledpError(f"audit: the command was given {count} values and wrote {len(lines)} messages.")
        longest = max(map(len, lines))
        if longest > self.width:
            raise ShuffledpError(f"audit: messages may have at most {self.width} bytes, got one of {longest}.")
        padded = b"".join(line.ljust(self.width, b"\0") for line in lines)
        return np.frombuffer(padded, dtype=np.uint8).reshape(count, self.width)


# --- Confidence limits ---


def lower_confidence_limit(hits: int, trials: int, error: float) -> float:
    """Returns the Clopper–Pearson lower limit: with probability 1 − error, the true probability is at least this."""
    from scipy.special import betaincinv

    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, error))


def upper_confidence_limit(hits: int, trials: int, error: float) -> float:
    """Returns the Clopper–Pearson upper limit: with probability 1 − error, the true probability is at most this."""
    return 1.0 - lower_confidence_limit(trials - hits, trials, error)


Scores = NDArray[np.float64]
Scorer = Callable[[Rows], Scores]
MAX_THRESHOLDS = 200
CHUNK = 10_000


@dataclass(frozen=True)
class AuditResult(PrintableResult):
    """The result of an audit.

    Args:
        epsilon_lower: Lower bound of the true local ε, at the stated confidence.
        claimed: The local ε that the mechanism claims.
        confidence: Probability with which ``epsilon_lower`` is valid.
        samples: Number of messages drawn for each of the two inputs.
        event: The set of messages that distinguishes the two inputs best.
        title: A description of the audited mechanism or program.

    >>> import shuffledp as sdp
    >>> result = sdp.AuditResult(1.93, claimed=1.0, confidence=0.999, samples=200_000, event="message 0", title="KRR")
    >>> result.violated
    True
    >>> result.verdict
    'BROKEN: the true ε is above the claimed 1'
    """

    epsilon_lower: float
    claimed: float
    confidence: float
    samples: int
    event: str
    title: str

    @property
    def violated(self) -> bool:
        """True if the lower bound exceeds the claimed ε."""
        return self.epsilon_lower > self.claimed

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.violated:
            return f"BROKEN: the true ε is above the claimed {self.claimed:g}"
        return f"no violation of ε = {self.claimed:g} found"

    @property
    def heading(self) -> str:
        return "Audit of a local randomizer"

    def summary(self) -> list[Row]:
        """Returns the labelled lines that ``print`` shows."""
        return [
            ("verdict", self.verdict),
            ("local ε is at least", f"{self.epsilon_lower:.4f}"),
            ("claimed", f"{self.claimed:g}"),
            ("confidence", f"{self.confidence:g}"),
            ("messages drawn", f"2 × {self.samples:,}"),
            ("best event", self.event),
            ("audited", self.title),
        ]


def audit(
    mechanism: Mechanism | Subject,
    claimed: float | None = None,
    *,
    samples: float = 200_000,
    confidence: float = 0.999,
    inputs: Sequence[Any] | None = None,
) -> AuditResult:
    """Draws messages for two inputs and returns the largest local ε that they prove.

    Messages are drawn from the operating system's randomness, so the number differs from run to run.

    Args:
        mechanism: A mechanism, or any ``Subject`` (``CommandSubject`` for a program).
        claimed: The local ε to test, by default the mechanism's own.
        samples: Number of messages for each of the two inputs, at least 100.
        confidence: Probability with which the lower bound is valid. A sound randomizer is reported as broken with at
            most the remaining probability.
        inputs: The two inputs, by default two that the mechanism finds hard to hide from each other.

    Returns:
        The lower bound of ε, the event that proves it, and the verdict on the claim.

    Raises:
        TypeError: If ``mechanism`` is neither a mechanism nor a ``Subject``, or a number has another type.
        ValueError: If a number is out of range, if ``inputs`` are not two or are given for a ``Subject``, or if
            ``claimed`` is missing for a ``Subject`` or a mechanism without a local ε.
        ShuffledpError: If the program of a ``CommandSubject`` fails or exceeds its limits.

    >>> import shuffledp as sdp
    >>> from shuffledp.auditing import audit
    >>> found = audit(sdp.KRR(1.0, options=4), samples=4000)
    >>> found.verdict, 0.3 < found.epsilon_lower
    ('no violation of ε = 1 found', True)
    """
    subject = _subject(mechanism, inputs)
    claimed = _claimed_epsilon(mechanism) if claimed is None else claimed
    claimed = validation.non_negative("audit", "claimed", claimed, up=True)
    count = validation.count("audit", "samples", samples, at_least=100)
    confidence = validation.open_probability("audit", "confidence", confidence, up=True)
    draws = _strip_padding([subject.draw(which, count) for which in (0, 1)])
    half = count // 2
    train = [rows[:half] for rows in draws]
    test = [rows[half:] for rows in draws]
    proposals = list(_propose_events(train))
    error = (1.0 - confidence) / (2 * len(proposals))
    best, event = 0.0, "no event distinguishes the inputs"
    for name, which, scorer, threshold in proposals:
        hits = [int((scorer(test[side]) >= threshold).sum()) for side in (which, 1 - which)]
        proved = _epsilon_limit(hits[0], hits[1], len(test[0]), error)
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
        return MechanismSubject(mechanism, mechanism.audit_pair())
    if len(inputs) != 2:
        raise ValueError(f"audit: inputs must be two, got {len(inputs)}.")
    return MechanismSubject(mechanism, mechanism.check(inputs))


def _claimed_epsilon(mechanism: Mechanism | Subject) -> float:
    """Returns the local ε that a mechanism claims for one user's report."""
    if isinstance(mechanism, Subject):
        raise ValueError("audit: a Subject claims no local ε; give claimed.")
    if mechanism.local_epsilon is None:
        raise ValueError(f"audit: {mechanism.name} claims no local ε for one user's report alone; give claimed.")
    return mechanism.local_epsilon


def _strip_padding(draws: list[Rows]) -> list[Rows]:
    """Cuts off the last bytes that are zero in every message: they carry no information and cost time."""
    used = np.flatnonzero(draws[0].any(axis=0) | draws[1].any(axis=0))
    width = int(used[-1]) + 1 if used.size else 1
    return [np.ascontiguousarray(rows[:, :width]) for rows in draws]


def _epsilon_limit(hits_first: int, hits_second: int, trials: int, error: float) -> float:
    """Returns the logarithm of the smallest likely ratio of an event's two probabilities, 0 if there is none."""
    low = lower_confidence_limit(hits_first, trials, error)
    high = upper_confidence_limit(hits_second, trials, error)
    return math.log(low / high) if low > 0 else 0.0


def _propose_events(train: list[Rows]) -> Iterator[tuple[str, int, Scorer, float]]:
    """Yields (name, input under which it is likelier, score, threshold) for each score and direction."""
    for name, make in SCORERS:
        for which in (0, 1):
            scorer = make(train[which], train[1 - which])
            threshold = _best_threshold(scorer(train[which]), scorer(train[1 - which]))
            if threshold is not None:
                yield name, which, scorer, threshold


def _best_threshold(first: Scores, second: Scores) -> float | None:
    """Returns the threshold whose event has the largest certified ratio on the training half."""
    candidates = np.unique(np.concatenate([first, second]))
    if len(candidates) > MAX_THRESHOLDS:
        candidates = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, MAX_THRESHOLDS)))
    best: tuple[float, float] | None = None
    ordered = np.sort(first), np.sort(second)
    for threshold in candidates.tolist():
        hits = [len(scores) - int(np.searchsorted(scores, threshold)) for scores in ordered]
        limit = _epsilon_limit(hits[0], hits[1], len(first), 0.01)
        if best is None or limit > best[0]:
            best = (limit, threshold)
    return None if best is None else best[1]


def _log_ratio(first: NDArray[np.int64], second: NDArray[np.int64]) -> Scores:
    """Returns the smoothed log ratio of counts."""
    return np.asarray(np.log((first + 0.5) / (second + 0.5)))


def _score_by_message(first: Rows, second: Rows) -> Scorer:
    """Scores a message by the log ratio of its two counts; 0 if it did not occur."""
    kinds, inverse = np.unique(np.concatenate([_as_keys(first), _as_keys(second)]), return_inverse=True)
    counts = [np.bincount(part, minlength=len(kinds)) for part in np.split(inverse, [len(first)])]
    ratios = _log_ratio(counts[0], counts[1])

    def score(rows: Rows) -> Scores:
        keys = _as_keys(rows)
        place = np.minimum(np.searchsorted(kinds, keys), len(kinds) - 1)
        return np.where(kinds[place] == keys, ratios[place], 0.0)

    return score


def _score_by_bits(first: Rows, second: Rows) -> Scorer:
    """Scores a message by the sum of its bits' log ratios: the best score if bits are independent."""
    ones, zeros = _bit_ratios(first, second)

    def score(rows: Rows) -> Scores:
        parts = [np.unpackbits(part, axis=1) @ (ones - zeros) for part in _split_into_chunks(rows)]
        return np.asarray(np.round(np.concatenate(parts) + zeros.sum(), 6))

    return score


def _score_by_one_bit(first: Rows, second: Rows) -> Scorer:
    """Scores a message by its most informative bit."""
    ones, zeros = _bit_ratios(first, second)
    place = int(np.argmax(np.maximum(ones, zeros)))

    def score(rows: Rows) -> Scores:
        bit = (rows[:, place // 8] >> (7 - place % 8)) & 1
        return np.asarray(np.where(bit == 1, ones[place], zeros[place]))

    return score


def _score_by_size(first: Rows, second: Rows) -> Scorer:
    """Scores a message by its value as a number, in the direction in which the first input's messages lie."""
    sign = 1.0 if _parse_numbers(first).mean() >= _parse_numbers(second).mean() else -1.0
    return lambda rows: sign * _parse_numbers(rows)


def _parse_numbers(rows: Rows) -> Scores:
    """Returns text rows as the numbers they spell, if all do; other rows as big-endian integers of 8 bytes."""
    try:
        return _as_keys(rows).astype(np.float64)
    except ValueError:
        wide = np.zeros((len(rows), 8), dtype=np.uint8)
        head = rows[:, :8]
        wide[:, 8 - head.shape[1] :] = head
        return wide.view(">u8").reshape(-1).astype(np.float64)


SCORERS: tuple[tuple[str, Callable[[Rows, Rows], Scorer]], ...] = (
    ("whole message", _score_by_message),
    ("bits taken together", _score_by_bits),
    ("single bit", _score_by_one_bit),
    ("size of the message as a number", _score_by_size),
)


def _bit_ratios(first: Rows, second: Rows) -> tuple[Scores, Scores]:
    """Returns the log ratios of observing a 1, and of observing a 0, for each bit."""
    counts = [
        sum(np.unpackbits(part, axis=1).sum(axis=0, dtype=np.int64) for part in _split_into_chunks(rows))
        for rows in (first, second)
    ]
    return _log_ratio(counts[0], counts[1]), _log_ratio(len(first) - counts[0], len(second) - counts[1])


def _as_keys(rows: Rows) -> NDArray[np.bytes_]:
    """Returns each row as one comparable item."""
    whole = np.ascontiguousarray(rows)
    return whole.view(f"S{whole.shape[1]}").reshape(-1)


def _split_into_chunks(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]
