"""Opening many envelopes: a look at each takes most of the time of a round, so that processes share the work."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass

from shuffledp.array import Bytes
from shuffledp.service.envelope import PrivateKey

PIECE_ROWS = 4096
"""Envelopes that one process opens at a time."""
WORTH_A_PROCESS = 20_000
"""So many take a second: fewer are opened here."""


@dataclass(frozen=True)
class Opener:
    """A private key and what the envelopes are bound to."""

    key: PrivateKey
    info: bytes

    def __call__(self, rows: Bytes) -> tuple[Bytes, int]:
        """What the rows hold that open, and how many do not."""
        opened, good = self.key.open_rows(self.info, rows)
        return opened, int(len(good) - len(opened))

    def all(self, batches: Iterable[Bytes], rows: int, workers: int | None = 1) -> Iterator[tuple[Bytes, int]]:
        """Every batch opened, in the same order; ``rows`` is how many there are at most.

        ``workers`` processes share the work, None takes one for each processor. Who asks for more than one from a
        script does so below ``if __name__ == "__main__"``.
        """
        wanted = (os.cpu_count() or 1) if workers is None else workers
        pieces = (batch[start : start + PIECE_ROWS] for batch in batches for start in range(0, len(batch), PIECE_ROWS))
        if wanted <= 1 or rows < WORTH_A_PROCESS:
            yield from map(self, pieces)
            return
        with ProcessPoolExecutor(wanted, multiprocessing.get_context("spawn")) as pool:
            waiting: deque[Future[tuple[Bytes, int]]] = deque()
            for piece in pieces:
                waiting.append(pool.submit(self, piece.copy()))
                if len(waiting) > 2 * wanted:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
