"""Which checkpoint objects to write for an autoscaler, and the API calls that write them."""

from __future__ import annotations

from typing import Any

from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.cluster import ClusterState, Vpa


def checkpoint_name(vpa: str, container: str) -> str:
    return f"{vpa}-{container}"


def checkpoints_of(cluster: ClusterState, vpa: Vpa, now: Seconds) -> list[dict[str, Any]]:
    """One object a container, in order of names."""
    return [
        {
            "metadata": {"name": checkpoint_name(vpa.id[1], container)},
            "spec": {"vpaObjectName": vpa.id[1], "containerName": container},
            "status": state.save(now),
        }
        for container, state in sorted(cluster.for_checkpoint(vpa, now).items())
    ]


def status_patch(checkpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """A checkpoint has no status subresource: its status is replaced in the object itself."""
    return [{"op": "replace", "path": "/status", "value": checkpoint["status"]}]
