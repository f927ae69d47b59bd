"""Termination messages: what a container wrote to its message file, or the end of its log."""

from __future__ import annotations

from pathlib import Path

from podfit.agent.decide.states import every_container
from podfit.agent.furnish.containers import ContainerMaker
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import EXITED, PodState

_MOST_BYTES, _MOST_LOG_BYTES, _MOST_LOG_LINES = 4096, 2048, 80


def collect(record: PodRecord, state: PodState, maker: ContainerMaker) -> None:
    """Reads, once each, the messages of containers that ended."""
    policies = {
        one["name"]: one.get("terminationMessagePolicy") or "File" for one in every_container(record.pod["spec"])
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
    # A line of a log: time, stream, F or P, then the text.
    words = [line.split(" ", 3) for line in lines[-_MOST_LOG_LINES:]]
    text = "\n".join(parts[3] if len(parts) == 4 else "" for parts in words)
    return text[-_MOST_LOG_BYTES:] + ("\n" if text else "")
