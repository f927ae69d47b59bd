"""The addresses of this machine, and error messages for ports that are not available."""

from __future__ import annotations

import contextlib
import os
import socket

_EVERY = ("", "0.0.0.0", "::")


class CannotListen(OSError):
    """The message says which address, and why."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        # Errors of name resolution have negative numbers and their own messages.
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror
        super().__init__(number, f"cannot listen on {host}:{port}: {why}")
        self.port = port


def bracketed(host: str) -> str:
    """The host as it is written before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def machine_address() -> str:
    """This machine's outgoing address; loopback if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def reached_at(host: str) -> str:
    """The address at which other machines reach a listener on `host`: this machine's own if it listens on all
    addresses."""
    return machine_address() if host in _EVERY else host


def free_port(wanted: int = 0) -> int:
    """A port of 127.0.0.1: `wanted` if it is free, otherwise any."""
    for number in (wanted, 0):
        with contextlib.suppress(OSError), contextlib.closing(socket.create_server(("127.0.0.1", number))) as found:
            return int(found.getsockname()[1])
    raise OSError("no port is free on 127.0.0.1")
