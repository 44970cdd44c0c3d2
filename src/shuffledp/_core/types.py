"""Names of array types, for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Random or packed 64-bit words."""
Bytes = NDArray[np.uint8]
"""Rows of bytes: encoded messages."""
Bools = NDArray[np.bool_]
