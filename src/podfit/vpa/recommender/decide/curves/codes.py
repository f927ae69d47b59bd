"""Encodes amounts in two bytes each, on a logarithmic scale: a container's last days fit into a few kilobytes.

Neighbouring codes are 0.05 % apart, from a thousandth of a millicore, or one byte, upwards. 0 means unknown. The same
codes are stored in the annotation of a checkpoint, so that sizes do not change after a restart.
"""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint16]
Amounts = NDArray[np.float64]

STEP = 0.0005
LEAST = {"cpu": 1e-6, "memory": 1.0}
MOST = 65535
_VERSION = "1"


class BadCurve(ValueError):
    """The text is not a saved curve."""


@cache
def _scale() -> NDArray[np.float32]:
    """The amount of each code, as a multiple of the least amount. Computed when the first curve is read, because it
    takes two megabytes and most recommenders have no curves."""
    scale: NDArray[np.float32] = np.exp(STEP * (np.arange(MOST + 1) - 1)).astype(np.float32)
    scale[0] = np.nan
    return scale


def coded(amounts: Amounts, resource: str) -> Codes:
    """Encodes cores or bytes. NaN becomes 0, and values out of range are clipped."""
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.rint(np.log(np.maximum(amounts, LEAST[resource]) / LEAST[resource]) / STEP) + 1
    return np.where(np.isnan(amounts), 0, np.clip(steps, 1, MOST)).astype(np.uint16)


def amounts_of(codes: Codes, resource: str) -> NDArray[np.float32]:
    return _scale()[codes] * np.float32(LEAST[resource])


def code_of(amount: float, resource: str) -> int:
    return int(coded(np.array([amount]), resource)[0])


def as_text(first: int, cpu: Codes, memory: Codes) -> str:
    """Both resources from slot `first` on, as compressed text."""
    both = np.concatenate([cpu, memory]).astype("<u2")
    steps = np.diff(both, prepend=np.uint16(0)).astype("<u2")
    packed = zlib.compress(steps.tobytes(), 6)
    return f"{_VERSION}:{first}:{len(cpu)}:{base64.b64encode(packed).decode()}"


def from_text(text: str, most: int) -> tuple[int, Codes, Codes]:
    """The first slot, and the codes of CPU and memory. Raises BadCurve if the text is invalid or has more than `most`
    slots."""
    try:
        version, first, count, packed = text.split(":")
        slots = int(count)
        if version != _VERSION or not 0 <= slots <= most or not 0 <= int(first) < math.inf:
            raise BadCurve("it is of another version or length")
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(packed, validate=True), 4 * slots + 1)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise error if isinstance(error, BadCurve) else BadCurve(str(error)) from error
    if len(raw) != 4 * slots:
        raise BadCurve(f"it has {len(raw)} bytes for {slots} slots")
    both = np.cumsum(np.frombuffer(raw, "<u2"), dtype=np.uint16)
    return int(first), both[:slots], both[slots:]
