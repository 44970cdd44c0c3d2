"""pure-ldp and multi-freq-ldpy, each called as it documents it, timed on request in an environment of their own.

    PYTHON benchmarks/rivals.py

Reads one JSON object a line and answers each with one. ``{"do": "versions"}`` tells what is installed;
``{"do": "prepare", "library", "mechanism", "options", "epsilon", "users"}`` draws values and messages and says how
many of each step's users are sampled, null for what the library does not have; ``{"do": "encode" | "aggregate",
"library"}`` runs that step once on them and tells its processor time per user. Needs nothing of shuffledp.
"""

from __future__ import annotations

import importlib.metadata
import json
import random
import sys
import time
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

PACKAGES = ("pure-ldp", "multi-freq-ldpy", "numpy", "numba", "xxhash")
HASH_FUNCTIONS = 1000
"""Of pure-ldp's fast local hashing, a heuristic that draws the hash function from a fixed few."""


@dataclass(frozen=True)
class Sample:
    """The number of users of a step: a sample if the time per user does not depend on it, else all."""

    encoded: int
    aggregated: int | None
    """None: all users. Their messages are then the encoded ones over again, which for plain numbers is as slow."""


SAMPLES = {
    "krr": Sample(100_000, None),
    "oue": Sample(5_000, 20_000),
    "local-hash": Sample(20_000, 500),
    "hadamard-response": Sample(10_000, None),
}


class Library(ABC):
    """One mechanism of one library at one size."""

    def __init__(self, mechanism: str, options: int, epsilon: float) -> None:
        self.mechanism, self.options, self.epsilon = mechanism, options, epsilon

    def values(self, values: list[int]) -> list[int]:
        """Values 0 … options−1 as the library counts them."""
        return values

    def sample(self) -> Sample:
        return SAMPLES[self.mechanism]

    @abstractmethod
    def has(self) -> bool:
        """Returns True if the library has the mechanism."""

    @abstractmethod
    def encode(self, values: list[int]) -> list[Any]:
        """A message for each value."""

    def server(self) -> Any:
        """Returns the state that is prepared before messages arrive; not timed."""
        return None

    @abstractmethod
    def aggregate(self, server: Any, messages: list[Any]) -> Any:
        """The estimated frequencies of all options."""


class PureLDP(Library):
    """A client and a server object; options are counted from 1."""

    name = "pure-ldp"

    def values(self, values: list[int]) -> list[int]:
        return [value + 1 for value in values]

    def has(self) -> bool:
        return self.mechanism in SAMPLES

    def encode(self, values: list[int]) -> list[Any]:
        client = self._client()
        return [client.privatise(value) for value in values]

    def aggregate(self, server: Any, messages: list[Any]) -> Any:
        server.aggregate_all(messages)
        # Asking for one estimate computes all of them; reading them one by one would only add time.
        server.estimate(1, suppress_warnings=True)
        return server.get_estimates

    def _client(self) -> Any:
        from pure_ldp.frequency_oracles import direct_encoding, hadamard_response, local_hashing, unary_encoding

        epsilon, options = self.epsilon, self.options
        if self.mechanism == "krr":
            return direct_encoding.DEClient(epsilon, options)
        if self.mechanism == "oue":
            return unary_encoding.UEClient(epsilon, options, use_oue=True)
        if self.mechanism == "local-hash":
            return local_hashing.LHClient(epsilon, options, use_olh=True)
        hash_functions = self.server().get_hash_funcs()
        return hadamard_response.HadamardResponseClient(epsilon, options, hash_functions)

    def server(self) -> Any:
        from pure_ldp.frequency_oracles import direct_encoding, hadamard_response, local_hashing, unary_encoding

        epsilon, options = self.epsilon, self.options
        if self.mechanism == "krr":
            return direct_encoding.DEServer(epsilon, options)
        if self.mechanism == "oue":
            return unary_encoding.UEServer(epsilon, options, use_oue=True)
        if self.mechanism == "local-hash":
            return local_hashing.LHServer(epsilon, options, use_olh=True)
        return hadamard_response.HadamardResponseServer(epsilon, options)


class FastLocalHashing(PureLDP):
    """pure-ldp's heuristic with few hash functions: another mechanism, faster to decode, shown for comparison only."""

    name = "pure-ldp fast"
    _matrix: Any = None

    def sample(self) -> Sample:
        return Sample(SAMPLES["local-hash"].encoded, None)

    def has(self) -> bool:
        return self.mechanism == "local-hash"

    def _client(self) -> Any:
        from pure_ldp.frequency_oracles.local_hashing import FastLHClient

        return FastLHClient(self.epsilon, self.options, HASH_FUNCTIONS, use_olh=True)

    def server(self) -> Any:
        from pure_ldp.frequency_oracles.local_hashing import FastLHServer

        server = FastLHServer(self.epsilon, self.options, HASH_FUNCTIONS, use_olh=True, hash_matrix=self._matrix)
        self._matrix = server.hash_matrix
        return server


class MultiFreqLDPy(Library):
    """Functions, compiled by numba in part."""

    name = "multi-freq-ldpy"

    def has(self) -> bool:
        return self.mechanism in ("krr", "oue", "local-hash")

    def encode(self, values: list[int]) -> list[Any]:
        from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE

        clients = {"krr": GRR.GRR_Client, "oue": UE.UE_Client, "local-hash": LH.LH_Client}
        client, options, epsilon = clients[self.mechanism], self.options, self.epsilon
        return [client(value, options, epsilon) for value in values]

    def aggregate(self, server: Any, messages: list[Any]) -> Any:
        from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE

        if self.mechanism == "krr":
            return GRR.GRR_Aggregator_MI(messages, self.options, self.epsilon)
        if self.mechanism == "oue":
            return UE.UE_Aggregator_MI(messages, self.epsilon)
        return LH.LH_Aggregator_MI(messages, self.options, self.epsilon)


LIBRARIES: dict[str, type[PureLDP] | type[MultiFreqLDPy]] = {
    library.name: library for library in (PureLDP, MultiFreqLDPy, FastLocalHashing)
}


class Bench:
    """A library with its values and messages at hand."""

    def __init__(self, library: Library, users: int) -> None:
        self.library = library
        sample = library.sample()
        self.encoded = min(sample.encoded, users)
        self.aggregated = users if sample.aggregated is None else min(sample.aggregated, users)
        draw = random.Random(1)
        self.values = library.values([draw.randrange(library.options) for _ in range(self.encoded)])
        messages = library.encode(self.values)
        if sample.aggregated is None:
            messages *= -(-self.aggregated // len(messages))
        elif self.aggregated > len(messages):
            messages += library.encode((self.values * -(-self.aggregated // self.encoded))[self.encoded :])
        self.messages = messages[: self.aggregated]
        # Compiles what numba compiles, and leaves nothing to the first measurement.
        library.aggregate(library.server(), self.messages[:10])

    def encode(self) -> float:
        start = time.process_time()
        self.library.encode(self.values)
        return (time.process_time() - start) / self.encoded

    def aggregate(self) -> float:
        server = self.library.server()
        start = time.process_time()
        self.library.aggregate(server, self.messages)
        return (time.process_time() - start) / self.aggregated


def main() -> None:
    np.random.seed(1)  # noqa: NPY002 - the generator that the libraries draw from
    random.seed(1)
    # That few users were aggregated, which is meant here.
    warnings.simplefilter("ignore", RuntimeWarning)
    benches: dict[str, Bench] = {}
    for line in sys.stdin:
        ask = json.loads(line)
        reply: dict[str, Any] = {}
        if ask["do"] == "versions":
            reply = {name: importlib.metadata.version(name) for name in PACKAGES}
            reply |= {"libraries": list(LIBRARIES)}
        elif ask["do"] == "prepare":
            benches.pop(ask["library"], None)
            library = LIBRARIES[ask["library"]](ask["mechanism"], ask["options"], ask["epsilon"])
            reply = {"encoded": None, "aggregated": None}
            if library.has():
                bench = benches[ask["library"]] = Bench(library, ask["users"])
                reply = {"encoded": bench.encoded, "aggregated": bench.aggregated}
        elif ask["do"] == "encode":
            reply = {"seconds": benches[ask["library"]].encode()}
        else:
            reply = {"seconds": benches[ask["library"]].aggregate()}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
