"""Address leases: a file per address, so that a crash neither loses a lease nor assigns an address twice.

A lease is a file named after the address, containing its owner. Creating the file acquires the address: it appears with
its content or not at all, and only one of two concurrent attempts succeeds. Addresses are assigned round-robin, so that
one that was just released is reused last.
"""

from __future__ import annotations

import os
import threading
import uuid
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path

from podfit.podnet import ranges
from podfit.podnet.failures import RangeExhausted

_LAST = "last"


class Leases:
    def __init__(self, folder: Path, network: IPv4Network) -> None:
        self.network = network
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held = self._read()
        self._last = self._read_last()
        self._lock = threading.Lock()

    def held(self) -> dict[str, IPv4Address]:
        with self._lock:
            return {owner: address for address, owner in self._held.items()}

    def take(self, owner: str) -> IPv4Address:
        """Leases an address for the owner: its current one, or the next free one. Raises RangeExhausted."""
        with self._lock:
            return self._take(owner)

    def _take(self, owner: str) -> IPv4Address:
        for address, holder in self._held.items():
            if holder == owner and address in self.network:
                return address
        first, count = int(self.network.network_address), self.network.num_addresses
        for offset in range(1, count + 1):
            address = IPv4Address(first + (int(self._last) - first + offset) % count)
            if self._usable(address) and self._write(address, owner):
                self._held[address] = owner
                self._persist(address)
                return address
        raise RangeExhausted(f"no free address in the pod range {self.network}: all {count - 3} are in use")

    def release(self, owner: str) -> None:
        with self._lock:
            for address in [address for address, holder in self._held.items() if holder == owner]:
                (self._folder / str(address)).unlink(missing_ok=True)
                del self._held[address]

    def _usable(self, address: IPv4Address) -> bool:
        edges = (self.network.network_address, self.network.broadcast_address, ranges.gateway(self.network))
        return address not in self._held and address not in edges

    def _write(self, address: IPv4Address, owner: str) -> bool:
        """Creates the lease; False if the address is in use: another runtime of the node may share the folder."""
        draft = self._folder / f".{uuid.uuid4().hex}"
        draft.write_text(owner)
        try:
            os.link(draft, self._folder / str(address))
        except FileExistsError:
            self._held[address] = (self._folder / str(address)).read_text()
            return False
        finally:
            draft.unlink()
        return True

    def _persist(self, address: IPv4Address) -> None:
        self._last = address
        draft = self._folder / f".{uuid.uuid4().hex}"
        draft.write_text(str(address))
        draft.replace(self._folder / _LAST)

    def _read(self) -> dict[IPv4Address, str]:
        found = {}
        for file in self._folder.iterdir():
            if file.name.startswith("."):
                file.unlink(missing_ok=True)  # a temporary file of a killed process
                continue
            try:
                found[IPv4Address(file.name)] = file.read_text()
            except (AddressValueError, OSError):
                continue
        return found

    def _read_last(self) -> IPv4Address:
        try:
            last = IPv4Address((self._folder / _LAST).read_text())
        except (OSError, AddressValueError):
            return self.network.network_address
        return last if last in self.network else self.network.network_address
