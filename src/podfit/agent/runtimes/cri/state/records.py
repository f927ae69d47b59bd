"""The records of the runtime's sandboxes and containers, and the conversion of their CRI status to the agent's states.

Kept in memory, so that a pass over a pod makes no runtime calls. All of it can be listed from the runtime again.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field

import msgspec

from podfit.agent.runtimes.cri.messages.configs import PersistedConfig, kept_container
from podfit.agent.runtimes.values import (
    CREATED,
    EXITED,
    RUNNING,
    ContainerState,
    LinuxUser,
    Machine,
    PodConfig,
    PodState,
)
from podfit.cri import api_pb2 as api

STATES = {api.CONTAINER_CREATED: CREATED, api.CONTAINER_RUNNING: RUNNING}
_NANOS = 1_000_000_000


@dataclass(slots=True)
class Container:
    state: ContainerState
    pod_uid: str
    kept: PersistedConfig
    group: str = ""
    """The container's cgroup while it runs; "" if it is unknown, as for a virtual machine."""
    pinned: bool = False
    """Whether the container's CPUs are restricted. The kernel lists CPUs for every container."""
    touched: float = 0.0
    """The time at which the record was last read or changed: an older list does not apply to it."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the container's resources change, so that the cgroup and the runtime get changes in the same order."""

    @property
    def writable(self) -> bool:
        """Whether the agent writes the container's cgroup itself."""
        return bool(self.group) and self.state.state == RUNNING

    @property
    def running(self) -> bool:
        """Whether the container runs, by the runtime and by the kernel: the runtime may not have noticed an exit."""
        return self.state.state == RUNNING and (not self.state.pid or os.path.exists(f"/proc/{self.state.pid}"))


@dataclass(slots=True)
class Pod:
    config: PodConfig
    sandbox_id: str
    attempt: int
    created_at: float
    group: str
    alive: bool = True
    ips: tuple[str, ...] = ()
    ending: bool = False
    """Whether the sandbox is being stopped: no container starts in it any more."""
    sandboxes: list[str] = field(default_factory=list)
    """All sandboxes of the pod, also older ones: each is removed with the pod."""
    containers: dict[str, Container] = field(default_factory=dict)
    touched: float = 0.0

    def view(self, host_ips: tuple[str, ...]) -> PodState:
        ordered = sorted(self.containers.values(), key=lambda item: (item.state.created_at, item.state.attempt))
        ips = host_ips if self.config.host_network else self.ips
        return PodState(
            self.config,
            self.alive,
            ips if self.alive else (),
            self.created_at,
            tuple(item.state for item in ordered),
        )


def container_state(status: api.ContainerStatus, info: str) -> tuple[ContainerState, PersistedConfig] | None:
    """`info`: the runtime's verbose answer. None for a container that none of our agents created."""
    kept = kept_container(status.annotations)
    if kept is None:
        return None
    state, more = STATES.get(status.state, EXITED), _read(info)
    ended = state == EXITED
    return (
        ContainerState(
            id=status.id,
            name=status.metadata.name,
            attempt=status.metadata.attempt,
            state=state,
            image=status.image.image or kept.image,
            image_id=status.image_ref,
            created_at=status.created_at / _NANOS,
            started_at=status.started_at / _NANOS,
            finished_at=status.finished_at / _NANOS if ended else 0.0,
            exit_code=status.exit_code if ended else 0,
            reason=_reason(status) if ended else "",
            message=status.message if ended else "",
            pid=more.pid if state == RUNNING else 0,
            limits=kept.limits,
            annotations=kept.annotations,
            user=_user(status),
            machine=more.machine,
        ),
        kept,
    )


def _reason(status: api.ContainerStatus) -> str:
    if status.state == api.CONTAINER_UNKNOWN:
        return "ContainerStatusUnknown"
    return status.reason or ("Error" if status.exit_code else "Completed")


def _user(status: api.ContainerStatus) -> LinuxUser | None:
    if not status.HasField("user") or not status.user.HasField("linux"):
        return None
    linux = status.user.linux
    return LinuxUser(linux.uid, linux.gid, tuple(linux.supplemental_groups))


class _Info(msgspec.Struct):
    pid: int = 0
    machine: Machine | None = None


def _read(info: str) -> _Info:
    try:
        return msgspec.json.decode(info, type=_Info)
    except msgspec.DecodeError:
        return _Info()


def process_id(info: str) -> int:
    """The pid of a container's or sandbox's first process, from the runtime's verbose answer; 0 if it is missing."""
    return _read(info).pid


def group_of(pid: int, controller: str) -> str:
    """The cgroup of a process: of a v1 controller, or v2's single one ("")."""
    try:
        with open(f"/proc/{pid}/cgroup") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return ""
    for _, controllers, group in rows:
        if controller in controllers.split(",") if controller else not controllers:
            return group
    return ""
