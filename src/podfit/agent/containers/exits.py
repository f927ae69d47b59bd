"""Records how containers exited: exit code, the memory limit in force at an OOM kill, and termination message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podfit.agent.furnish.containers import ContainerMaker
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import EXITED, PodState
from podfit.api.resize.states import every_container

_MOST_BYTES, _MOST_LOG_BYTES, _MOST_LOG_LINES = 4096, 2048, 80


def record_exits(record: PodRecord, snapshot: Snapshot) -> None:
    """Records each exit once. For an OOM kill the record includes the limit in force, because a later resize changes
    it."""
    for name, seen in snapshot.seen.items():
        last = seen.last
        if last is None or last.state != EXITED or record.exits.get(name) == last.id:
            continue
        record.exits = {**record.exits, name: last.id}
        if last.reason == "OOMKilled":
            record.ooms = {**record.ooms, name: record.ooms.get(name, 0) + 1}
            record.story.add("OOM-killed", name, **_limit(snapshot, name), exit_code=last.exit_code)
        else:
            record.story.add("exited", name, reason=last.reason, exit_code=last.exit_code)


def _limit(snapshot: Snapshot, name: str) -> dict[str, Any]:
    limit = ((snapshot.actuated.containers.get(name) or {}).get("limits") or {}).get("memory")
    return {} if limit is None else {"memory_limit": str(limit)}


def collect_messages(record: PodRecord, state: PodState, maker: ContainerMaker) -> None:
    """Reads the termination message of each exited container, once."""
    policies = {
        container["name"]: container.get("terminationMessagePolicy") or "File"
        for container in every_container(record.pod["spec"])
    }
    for container in state.containers:
        if container.state != EXITED or container.id in record.messages or container.name not in policies:
            continue
        text = _read(maker.message_file(record, container.name, container.attempt))
        if not text and container.exit_code != 0 and policies[container.name] == "FallbackToLogsOnError":
            log_file = maker.log_folder(record) / container.name / f"{container.attempt}.log"
            text = _tail(log_file)
        record.messages[container.id] = text


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 4 * _MOST_LOG_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    # A log line: time, stream, F or P, then the text; after a P the line continues.
    words = [line.split(" ", 3) for line in lines[-_MOST_LOG_LINES:]]
    text = "".join(parts[3] + ("" if parts[2] == "P" else "\n") for parts in words if len(parts) == 4)
    return text[-_MOST_LOG_BYTES:]
