"""Opening many envelopes, which takes most of the time of closing a round, in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass

from shuffledp._core.types import Bytes
from shuffledp.service.crypto import PrivateKey

CHUNK_ROWS = 4096
"""Number of envelopes in a unit of work."""
MIN_PARALLEL_ROWS = 20_000
"""Below this number, which takes about a second, envelopes are opened in this process."""


@dataclass(frozen=True)
class EnvelopeOpener:
    """A private key and the context that the envelopes are bound to."""

    key: PrivateKey
    info: bytes

    def __call__(self, rows: Bytes) -> tuple[Bytes, int]:
        """Returns the contents of the rows that open, and the number of those that do not."""
        opened, good = self.key.open_rows(self.info, rows)
        return opened, int(len(good) - len(opened))

    def open_all(self, batches: Iterable[Bytes], rows: int, workers: int | None = 1) -> Iterator[tuple[Bytes, int]]:
        """Opens all batches in order.

        Args:
            batches: Envelopes, one per row.
            rows: Upper bound of their number.
            workers: Number of processes; None stands for one per processor. A script that uses more than one must do
                so below ``if __name__ == "__main__"``.

        Yields:
            The contents of the rows that open, and the number of those that do not, for each piece of a batch.
        """
        wanted = (os.cpu_count() or 1) if workers is None else workers
        pieces = (batch[start : start + CHUNK_ROWS] for batch in batches for start in range(0, len(batch), CHUNK_ROWS))
        if wanted <= 1 or rows < MIN_PARALLEL_ROWS:
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
