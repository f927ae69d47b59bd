"""A load generator: sends few or many requests per second to the web service, in waves of $WAVE_S seconds."""

import contextlib
import http.client
import os
import time

WAVE_S = float(os.environ.get("WAVE_S", "40"))
LOW, HIGH = float(os.environ.get("LOW_RPS", "3")), float(os.environ.get("HIGH_RPS", "30"))


def rate(seconds: float) -> float:
    """The request rate at a time: high in the middle half of each wave."""
    return HIGH if 0.2 <= (seconds % WAVE_S) / WAVE_S < 0.6 else LOW


def ask(connection: http.client.HTTPConnection) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/")
        connection.getresponse().read()
        return
    connection.close()


if __name__ == "__main__":
    start = due = time.monotonic()
    link = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=2)
    while True:
        ask(link)
        now = time.monotonic()
        # Time lost to a slow response is not made up for: visitors leave.
        due = max(due + 1 / rate(now - start), now)
        time.sleep(max(0.0, due - time.monotonic()))
