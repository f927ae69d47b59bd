"""The namespaces that the containers of a pod share, held open by the keeper; and forks into pid namespaces."""

from __future__ import annotations

import os
import signal
from typing import Any

from . import launch, linux

PAUSE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 2147483 & wait $!; done")
"""PID 1 of a pid namespace that all containers of a pod share."""


class PodNamespaces:
    def __init__(self, keeper: int) -> None:
        """`keeper`: the pid of this process, to recognize it after a fork."""
        self.keeper = keeper
        self.held: dict[str, dict[str, int]] = {}
        """Descriptors by pod and kind of namespace."""
        self.pauses: dict[str, int] = {}
        """The pid of each pod's PAUSE."""
        self.own = {
            name: os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("pid", "uts", "ipc")
        }

    def forget(self, uid: str) -> None:
        for descriptor in self.held.pop(uid, {}).values():
            os.close(descriptor)
        if pause := self.pauses.pop(uid, 0):
            os.kill(pause, signal.SIGKILL)

    def fork_into(self, pid_namespace: int | None, fresh: bool) -> int:
        """Forks. The child is in that pid namespace, in a new one as its PID 1, or (with neither) in the keeper's
        own."""
        if pid_namespace is not None:
            linux.setns(pid_namespace, linux.CLONE_NEWPID)
        elif fresh:
            linux.unshare(linux.CLONE_NEWPID)
        else:
            return os.fork()
        try:
            return os.fork()
        finally:
            if os.getpid() == self.keeper:
                # The setting only affects future children; the kernel refuses a second unshare until it is undone.
                linux.setns(self.own["pid"], linux.CLONE_NEWPID)

    def of_pod(self, spec: dict[str, Any], peers: list[int]) -> dict[str, int]:
        """The namespaces shared by a pod's containers, created with the first one; a new keeper takes them from a
        running one."""
        held = self.held.get(spec["pod_uid"])
        if held is None:
            held = {}
            try:
                self._open(held, spec, peers)
            except BaseException:
                # With a partial set, the next container would use namespaces of the host.
                for descriptor in held.values():
                    os.close(descriptor)
                raise
            self.held[spec["pod_uid"]] = held
        return held

    def _open(self, held: dict[str, int], spec: dict[str, Any], peers: list[int]) -> None:
        if peers:
            for name in ("uts", "ipc"):
                held[name] = os.open(f"/proc/{peers[0]}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        else:
            self._make(held, spec)
        if spec.get("network"):
            held["net"] = os.open(spec["network"], os.O_RDONLY | os.O_CLOEXEC)
        if spec["share_pid"]:
            held["pid"] = self._share_pids(spec["pod_uid"], peers)

    def of_target(self, spec: dict[str, Any], pid: int) -> int | None:
        """The pid namespace of the target container; None if it has its own or the pod's."""
        if not spec.get("targeted") or spec["share_pid"] or spec["host_pid"]:
            return None
        if not pid:
            raise RuntimeError("the target container is not running")
        return os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def _make(self, held: dict[str, int], spec: dict[str, Any]) -> None:
        linux.unshare(linux.CLONE_NEWUTS | (0 if spec["host_ipc"] else linux.CLONE_NEWIPC))
        try:
            linux.sethostname(spec["hostname"])
            for name, value in spec.get("sysctls", {}).items():
                with open("/proc/sys/" + name.replace(".", "/"), "w") as parameter:
                    parameter.write(value)
            for name in ("uts", "ipc"):
                held[name] = os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            linux.setns(self.own["uts"], linux.CLONE_NEWUTS)
            linux.setns(self.own["ipc"], linux.CLONE_NEWIPC)

    def _share_pids(self, uid: str, peers: list[int]) -> int:
        if peers:
            return os.open(f"/proc/{peers[0]}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        pid = self.fork_into(None, fresh=True)
        if pid == 0:
            try:
                launch.reset_signals()
                os.setsid()
                os.execv(PAUSE[0], PAUSE)
            finally:
                os._exit(127)
        self.pauses[uid] = pid
        return os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
