"""A pod's network request and its result, stored in a file per pod: after a crash they are read from there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from podfit.kit.files.atomicfile import write_atomic
from podfit.podnet.ports import PortMapping

BRIDGE, CNI = "bridge", "cni"


class PodRequest(Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    ports: tuple[PortMapping, ...] = ()
    """Only those with a host port."""
    annotations: Mapping[str, str] = {}
    sysctls: Mapping[str, str] = {}
    """Kernel parameters of the pod's network namespace, with dots as separators."""


class Attachment(Struct):
    """The network of one pod. Written before anything is created for the pod, and again when all is done."""

    request: PodRequest
    kind: str
    """BRIDGE or CNI."""
    namespace: str
    """Path of the network namespace."""
    ips: tuple[str, ...] = ()
    """Empty until the pod is connected."""
    link: str = ""
    """The pod's link on the host's side."""
    published: tuple[PortMapping, ...] = ()
    """Host ports in our own nftables table."""
    cni: dict[str, Any] = {}
    """The CNI configuration in use, with the plugins' last result: the input of DEL."""


class Attachments:
    """The stored attachments, by pod."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Attachment] = {}

    def open(self) -> None:
        for file in self._folder.glob("*.json"):
            try:
                self._known[file.stem] = msgspec.json.decode(file.read_bytes(), type=Attachment)
            except (OSError, msgspec.DecodeError):
                file.unlink(missing_ok=True)

    def get(self, uid: str) -> Attachment | None:
        return self._known.get(uid)

    def all(self) -> list[Attachment]:
        return list(self._known.values())

    def save(self, attachment: Attachment) -> None:
        uid = attachment.request.uid
        self._known[uid] = attachment
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not synced: data survives a killed process, and after a power loss there are no networks left.
        write_atomic(self._folder / f"{uid}.json", msgspec.json.encode(attachment), durable=False)

    def drop(self, uid: str) -> None:
        self._known.pop(uid, None)
        (self._folder / f"{uid}.json").unlink(missing_ok=True)
