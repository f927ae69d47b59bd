"""A memory-hungry worker: holds between $LOW_MB and $HIGH_MB, in waves of $WAVE_S seconds."""

import math
import os
import time

WAVE_S = float(os.environ.get("WAVE_S", "50"))
LOW, HIGH = int(os.environ.get("LOW_MB", "20")), int(os.environ.get("HIGH_MB", "90"))
STEP = 1 << 20


def wanted(seconds: float) -> int:
    return round(LOW + (HIGH - LOW) * (1 - math.cos(2 * math.pi * seconds / WAVE_S)) / 2)


if __name__ == "__main__":
    held: list[bytearray] = []
    start = time.monotonic()
    while True:
        number = wanted(time.monotonic() - start)
        while len(held) < number:
            held.append(bytearray(os.urandom(1)) * STEP)
        del held[number:]
        time.sleep(0.5)
