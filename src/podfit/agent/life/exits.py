"""Ends of containers in the pod's story: how each ended, and for an OOM kill at which limit."""

from __future__ import annotations

from typing import Any

from podfit.agent.observe import Snapshot
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import EXITED


def note(record: PodRecord, snapshot: Snapshot) -> None:
    """Each end once. An OOM kill names the limit that was in force, which a later resize changes."""
    for name, seen in snapshot.seen.items():
        last = seen.last
        if last is None or last.state != EXITED or record.exits.get(name) == last.id:
            continue
        record.exits = {**record.exits, name: last.id}
        if last.reason == "OOMKilled":
            record.ooms = {**record.ooms, name: record.ooms.get(name, 0) + 1}
            record.story.tell("OOM-killed", name, **_limit(snapshot, name), exit_code=last.exit_code)
        else:
            record.story.tell("exited", name, reason=last.reason, exit_code=last.exit_code)


def _limit(snapshot: Snapshot, name: str) -> dict[str, Any]:
    limit = ((snapshot.actuated.containers.get(name) or {}).get("limits") or {}).get("memory")
    return {} if limit is None else {"memory_limit": str(limit)}
