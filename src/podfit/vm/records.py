"""The runtime's own metadata: sandboxes and VMs in one SQLite file, on disk before the response to any call.

A record is written as a whole, in one transaction; after kill -9 the record that was last written exists. It is the
only record of which VMs exist: libvirt's domains and cgroups are reconciled with it at the start.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podfit.api.pods import machines
from podfit.cri import api_pb2 as cri
from podfit.vm.decide.layout import Layout
from podfit.vm.decide.progress import Update
from podfit.vm.decide.sizes import Limits
from podfit.vm.reach.dhcp import Lease

CREATED, RUNNING, EXITED = "created", "running", "exited"
_SANDBOX, _CONTAINER = "sandbox", "container"


class CannotOpen(Exception):
    """The metadata cannot be read; the message says why."""


@dataclass
class Sandbox:
    id: str
    config: cri.PodSandboxConfig
    handler: str
    created_ns: int
    ready: bool = True
    address: str = ""
    """The address in the pod network; "" if the pod has none."""
    namespace: str = ""
    """The path of the pod's network namespace."""
    lease: Lease | None = None
    """The guest's network settings."""
    translated: bool = False
    """The guest was migrated with another address than the pod has here; packets are translated between the two."""


@dataclass
class Image:
    """The parts of an image that a VM starts from."""

    id: str
    kernel: str = ""
    initrd: str = ""
    cmdline: str = ""
    disk: str = ""
    disk_format: str = ""


@dataclass
class Container:
    id: str
    sandbox_id: str
    config: cri.ContainerConfig
    uuid: str
    group: str
    image: Image
    layout: Layout
    limits: Limits
    created_ns: int
    state: str = CREATED
    started_ns: int = 0
    finished_ns: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    overhead_mib: int = 0
    update: Update | None = None
    """The change of size in progress."""
    offline_vcpus: int = 0
    """vCPUs that are plugged but that the guest may not use."""
    unused_mib: int = 0
    """Memory that is plugged but that the guest does not use, as far as is known."""
    expected_mib: int = 0
    """The balloon driver's count once the guest uses all of its memory; 0: unknown."""
    arriving: bool = False
    """The VM is expected from another host and does not run here yet."""
    leaving: str = ""
    """The libvirt daemon to which the VM is being migrated."""
    log_held: bool = False
    """The VM has arrived, and its log waits for the entries from before its migration."""
    moved: bool = False
    """The VM runs on the other host now; only this record remains here."""
    power: str = machines.RUNNING
    """Suspended or Shutdown: QEMU has exited, or will, and the container stays."""

    @property
    def domain(self) -> str:
        return f"podfit-{self.id[:13]}"


class Records:
    def __init__(self, path: Path) -> None:
        """Raises CannotOpen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.sandboxes: dict[str, Sandbox] = {}
        self.containers: dict[str, Container] = {}
        try:
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS records (kind TEXT, id TEXT PRIMARY KEY, config BLOB, data TEXT)"
            )
            rows = self._database.execute("SELECT kind, config, data FROM records").fetchall()
        except sqlite3.Error as error:
            raise CannotOpen(f"{path}: {error}") from error
        for kind, config, data in rows:
            self._load(kind, config, json.loads(data))

    def _load(self, kind: str, config: bytes, data: dict[str, Any]) -> None:
        if kind == _SANDBOX:
            data["lease"] = Lease(**data["lease"]) if data.get("lease") else None
            sandbox = Sandbox(config=cri.PodSandboxConfig.FromString(config), **data)
            self.sandboxes[sandbox.id] = sandbox
            return
        data["layout"], data["limits"] = Layout.from_json(data["layout"]), Limits(**data["limits"])
        data["image"] = Image(**data["image"])
        data["update"] = Update.from_json(data["update"]) if data["update"] else None
        container = Container(config=cri.ContainerConfig.FromString(config), **data)
        self.containers[container.id] = container

    def save_sandbox(self, sandbox: Sandbox) -> None:
        data = {name: value for name, value in vars(sandbox).items() if name != "config"}
        data["lease"] = asdict(sandbox.lease) if sandbox.lease is not None else None
        self._write(_SANDBOX, sandbox.id, sandbox.config.SerializeToString(), data)
        self.sandboxes[sandbox.id] = sandbox

    def save(self, container: Container) -> None:
        data = {name: value for name, value in vars(container).items() if name != "config"}
        data["layout"], data["limits"] = container.layout.to_json(), asdict(container.limits)
        data["image"] = asdict(container.image)
        data["update"] = container.update.to_json() if container.update else None
        self._write(_CONTAINER, container.id, container.config.SerializeToString(), data)
        self.containers[container.id] = container

    def _write(self, kind: str, id: str, config: bytes, data: dict[str, Any]) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", (kind, id, config, json.dumps(data))
        )

    def drop(self, id: str) -> None:
        self._database.execute("DELETE FROM records WHERE id = ?", (id,))
        self.sandboxes.pop(id, None)
        self.containers.pop(id, None)

    def close(self) -> None:
        self._database.close()
