"""A stranger at Spark's ports: asks for blocks in Spark's own protocol, and knows no secret.

A frame is its length in 8 bytes, a kind of message in one, and the message; numbers are big-endian.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

Address = tuple[str, int]
CHUNK_REQUEST, CHUNK, CALL, ANSWER, FAILURE, STREAM_REQUEST, STREAM = 0, 1, 3, 4, 5, 6, 7
OPEN_BLOCKS = 0
MAX_BLOCKS = 40
TIMEOUT_SECONDS = 20


@dataclass(frozen=True)
class PortReply:
    """What a port answered: the kind, -1 where it hung up, and the rest."""

    kind: int
    body: bytes


@contextmanager
def connect(address: Address) -> Iterator[Callable[[bytes], PortReply]]:
    """Asks over one connection."""
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as connection:

        def ask(frame: bytes) -> PortReply:
            connection.sendall(struct.pack(">q", len(frame) + 8) + frame)
            (length,) = struct.unpack(">q", _read(connection, 8) or struct.pack(">q", 8))
            content = _read(connection, length - 8)
            return PortReply(content[0], content[1:]) if content else PortReply(-1, b"")

        yield ask


def _read(connection: socket.socket, size: int) -> bytes:
    """So many bytes; none if the connection ends before."""
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            return b""
        found += more
    return found


def open_block_request(application: str, block: str) -> bytes:
    """The request for a block, as an executor makes it."""
    body = struct.pack(">b", OPEN_BLOCKS) + _text(application) + _text("1") + struct.pack(">i", 1) + _text(block)
    return struct.pack(">bqi", CALL, 1, len(body)) + body


def chunk_request(stream: int) -> bytes:
    """The request for the first chunk of a stream."""
    return struct.pack(">bqi", CHUNK_REQUEST, stream, 0)


def stream_request(name: str) -> bytes:
    """The request for a whole stream by its name."""
    return struct.pack(">b", STREAM_REQUEST) + _text(name)


def _text(text: str) -> bytes:
    return struct.pack(">i", len(text)) + text.encode()


def fetch_block(address: Address, application: str, name: str) -> PortReply:
    """A block, in the two steps in which Spark fetches it; or the refusal."""
    with connect(address) as ask:
        opened = ask(open_block_request(application, name))
        if opened.kind != ANSWER:
            return opened
        # After the number of the call and the length of the answer: its kind, the stream's number, how many chunks.
        (stream,) = struct.unpack(">q", opened.body[13:21])
        found = ask(chunk_request(stream))
        return PortReply(found.kind, found.body[12:]) if found.kind == CHUNK else found


def fetch_broadcasts(address: Address, application: str) -> Iterator[bytes]:
    """What Spark broadcasts, unpacked: among it every task with all that it was given."""
    for number in range(MAX_BLOCKS):
        found = fetch_block(address, application, f"broadcast_{number}_piece0")
        if found.kind == CHUNK:
            yield unpack_lz4(found.body)


def unpack_lz4(packed: bytes) -> bytes:
    """The content of Spark's LZ4 blocks: a head of 21 bytes (how, two lengths, a checksum) before each."""
    found, place = b"", 0
    while packed[place : place + 8] == b"LZ4Block":
        how, size, length, _ = struct.unpack("<BiiI", packed[place + 8 : place + 21])
        place += 21 + size
        content = packed[place - size : place]
        found += content if how >> 4 == 1 or not size else pa.decompress(content, length, "lz4_raw", asbytes=True)
    return found


def listening_addresses(process: int) -> set[tuple[str, int]]:
    """The addresses, as the kernel writes them, and ports at which a process waits for connections."""
    sockets = set()
    # A process may end while it is looked at.
    with suppress(OSError):
        for path in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                sockets.add(os.readlink(path))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, place, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                address, port = place.split(":")
                found.add((address, int(port, 16)))
    return found


def is_loopback(address: str) -> bool:
    """127.0.0.0/8 or ::1 as the kernel writes them: words of four bytes, each the wrong way round."""
    words = [address[start : start + 8] for start in range(0, len(address), 8)]
    *before, last = words
    if before in ([], ["00000000", "00000000", "FFFF0000"]):
        return last.endswith("7F")
    return words == ["00000000"] * 3 + ["01000000"]


def process_tree(process: int) -> set[int]:
    """A process and all that it started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found
