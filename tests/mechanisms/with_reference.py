"""Which mechanisms give a reference law that is uniform, or of independent bits."""

from __future__ import annotations

WITH_REFERENCE = (
    "krr",
    "rappor",
    "oue",
    "subset",
    "privset",
    "local-hash",
    "hadamard-response",
    "pi-rappor",
    "projective-geometry",
)
