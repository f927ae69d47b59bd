"""Detects the exit of a process through the kernel, without the runtime: its pidfd becomes readable.

A runtime reports an exit only on request, or in a stream that older ones do not have. Only processes of this machine's
pid namespace can be followed; others are found by listing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class Exits:
    def __init__(self) -> None:
        self._watched: dict[str, int] = {}

    def follow(self, key: str, pid: int, ended: Callable[[str], None]) -> None:
        """Calls `ended(key)` once, soon if the process has already exited. Does nothing if it cannot be followed."""
        if key in self._watched or pid <= 0:
            return
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            asyncio.get_running_loop().call_soon(ended, key)
            return
        except OSError:
            return

        def readable() -> None:
            self.forget(key)
            ended(key)

        self._watched[key] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, readable)

    def forget(self, key: str) -> None:
        descriptor = self._watched.pop(key, -1)
        if descriptor >= 0:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def followed(self, key: str) -> bool:
        return key in self._watched

    def close(self) -> None:
        for key in list(self._watched):
            self.forget(key)
