"""The runtime's records on disk, from which a restarted agent knows its pods and containers.

    <data>/pods/<uid>.json              PodConfig, by the agent
    <data>/containers/<id>/container.json   ContainerConfig and image, by the agent
    <data>/containers/<id>/launch.json      what the keeper's child does, by the agent
    <data>/containers/<id>/state.json       pid, exit code and reason, by the keeper

Allocations are not stored here but in the agent's ledger, so files are replaced as a whole, but not synced.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from podfit.agent.runtimes.values import (
    CREATED,
    EXITED,
    RUNNING,
    ContainerConfig,
    ContainerState,
    LinuxUser,
    NotFound,
    PodConfig,
    PodState,
)
from podfit.kit.files.atomicfile import write_again, write_atomic


@dataclass(slots=True)
class StoredPod:
    config: PodConfig
    created_at: float
    group: str
    stopped: bool = False


@dataclass(slots=True)
class ContainerRecord:
    id: str
    pod_uid: str
    config: ContainerConfig
    image_id: str
    created_at: float
    group: str
    user: LinuxUser | None = None
    warning: str = ""
    image: str = ""
    """The image's full name."""
    image_key: str = ""
    """The image's id in the store, which is protected for this container; "host" without one."""
    stop_signal: str = ""
    """The stop signal that the image names."""


@dataclass(slots=True)
class Container:
    """A record and the keeper's last report on it."""

    record: ContainerRecord
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        return "pid" in self.state and "exit_code" not in self.state

    @property
    def exited(self) -> bool:
        return "exit_code" in self.state

    def view(self) -> ContainerState:
        record, state = self.record, self.state
        return ContainerState(
            id=record.id,
            name=record.config.name,
            attempt=record.config.attempt,
            state=EXITED if self.exited else RUNNING if self.running else CREATED,
            image=record.image or record.config.image,
            image_id=record.image_id,
            created_at=record.created_at,
            started_at=state.get("started_at", 0.0),
            finished_at=state.get("finished_at", 0.0),
            exit_code=state.get("exit_code", 0),
            reason=state.get("reason", ""),
            message=state.get("message", ""),
            pid=state.get("pid", 0) if self.running else 0,
            limits=record.config.limits,
            annotations=record.config.annotations,
            user=record.user,
            warning=record.warning,
        )


@dataclass(slots=True)
class Pod:
    record: StoredPod
    containers: dict[str, Container] = field(default_factory=dict)
    lost: bool = False
    """Another program removed the pod's cgroup: the pod has to be stopped and recreated."""
    ending: bool = False
    """No container starts in the pod any more: those that exist now are all that have to be stopped."""

    @property
    def alive(self) -> bool:
        return not self.record.stopped and not self.lost

    def pids(self) -> list[int]:
        """The pids of the pod's running containers."""
        return [item.state["pid"] for item in self.containers.values() if item.running]

    def pid_of(self, name: str) -> int:
        """The pid of the running container of this name; 0 if there is none."""
        running = (item for item in self.containers.values() if item.running)
        return next((item.state["pid"] for item in running if name and item.record.config.name == name), 0)

    def view(self, ips: tuple[str, ...]) -> PodState:
        ordered = sorted(self.containers.values(), key=lambda item: (item.record.created_at, item.record.id))
        return PodState(
            config=self.record.config,
            alive=self.alive,
            ips=ips if self.alive else (),
            created_at=self.record.created_at,
            containers=tuple(item.view() for item in ordered),
        )


class Known:
    """The pods and containers of the runtime."""

    _pods: dict[str, Pod]
    _containers: dict[str, Container]

    def _pod(self, uid: str) -> Pod:
        pod = self._pods.get(uid)
        if pod is None:
            raise NotFound(f"pod {uid} not found")
        return pod

    def _container(self, container_id: str) -> Container:
        container = self._containers.get(container_id)
        if container is None:
            raise NotFound(f"container {container_id} not found")
        return container


def _encode_path(value: object) -> str:
    return str(value)


def _decode_path(kind: type, value: object) -> object:
    return kind(value)


_pods: msgspec.json.Decoder[StoredPod] = msgspec.json.Decoder(StoredPod, dec_hook=_decode_path)
_containers: msgspec.json.Decoder[ContainerRecord] = msgspec.json.Decoder(ContainerRecord, dec_hook=_decode_path)
_encoder = msgspec.json.Encoder(enc_hook=_encode_path)


class Records:
    def __init__(self, data_dir: Path) -> None:
        self.pods_dir, self.containers_dir = data_dir / "pods", data_dir / "containers"

    def prepare(self) -> None:
        for folder in (self.pods_dir, self.containers_dir):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def folder(self, container_id: str) -> Path:
        return self.containers_dir / container_id

    def save_pod(self, record: StoredPod) -> None:
        write_again(self.pods_dir / f"{record.config.uid}.json", _encoder.encode(record), durable=False)

    def save_container(self, record: ContainerRecord, launch: dict[str, Any]) -> None:
        folder = self.folder(record.id)
        folder.mkdir(mode=0o755)
        write_atomic(folder / "launch.json", _encoder.encode(launch), durable=False)
        write_atomic(folder / "container.json", _encoder.encode(record), durable=False)

    def pod_files(self, uid: str) -> list[Path]:
        """The container's files in /etc that belong to the pod."""
        return [self.pods_dir / f"{uid}.{name}" for name in ("hosts", "hostname", "resolv.conf")]

    def drop_pod(self, uid: str) -> None:
        for file in (self.pods_dir / f"{uid}.json", *self.pod_files(uid)):
            file.unlink(missing_ok=True)

    def drop_container(self, container_id: str) -> None:
        shutil.rmtree(self.folder(container_id), ignore_errors=True)

    def state(self, container_id: str) -> dict[str, Any]:
        try:
            content: dict[str, Any] = msgspec.json.decode((self.folder(container_id) / "state.json").read_bytes())
        except (OSError, msgspec.DecodeError):
            return {}
        return content

    def load(self) -> dict[str, Pod]:
        """Reads all records; a file that cannot be read (after a crash during its creation) counts as missing."""
        pods: dict[str, Pod] = {}
        for path in self.pods_dir.glob("*.json"):
            try:
                record = _pods.decode(path.read_bytes())
            except (OSError, msgspec.DecodeError, ValueError):
                continue
            pods[record.config.uid] = Pod(record)
        for folder in self.containers_dir.iterdir():
            try:
                container = _containers.decode((folder / "container.json").read_bytes())
            except (OSError, msgspec.DecodeError, ValueError):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            if container.pod_uid in pods:
                pods[container.pod_uid].containers[container.id] = Container(container, self.state(container.id))
        return pods
