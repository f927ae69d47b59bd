"""Where this machine is reached."""

from __future__ import annotations

import socket

_EVERY = ("", "0.0.0.0", "::")


def machine_address() -> str:
    """The address this machine reaches others with; loopback when it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def reached_at(host: str) -> str:
    """The address others reach a listener on `host` at: one that listens everywhere, at the machine's own."""
    return machine_address() if host in _EVERY else host
