"""The checkpoint objects of an autoscaler, and the API calls that write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podfit.api.objects import Object
from podfit.vpa.model.times import Seconds
from podfit.vpa.recommender.decide.fleet.saving import statuses_of
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, Vpa


def checkpoint_name(vpa: str, container: str) -> str:
    return f"{vpa}-{container}"


def checkpoints_of(cluster: ClusterState, vpa: Vpa, now: Seconds) -> list[Object]:
    """One object per container, sorted by name."""
    states = sorted(cluster.for_checkpoint(vpa, now).items())
    return _objects(vpa, {container: state.save(now) for container, state in states})


def checkpoints_of_all(cluster: ClusterState, vpas: Sequence[Vpa], now: Seconds) -> list[list[Object]]:
    """The checkpoints of many autoscalers; much faster than one call for each."""
    if cluster.fleet is None:
        return [checkpoints_of(cluster, vpa, now) for vpa in vpas]
    return [_objects(vpa, found) for vpa, found in zip(vpas, statuses_of(cluster, vpas, now), strict=True)]


def _objects(vpa: Vpa, statuses: Mapping[str, Object]) -> list[Object]:
    return [
        {
            "metadata": {"name": checkpoint_name(vpa.id[1], container)},
            "spec": {"vpaObjectName": vpa.id[1], "containerName": container},
            "status": status,
        }
        for container, status in statuses.items()
    ]


def status_patch(checkpoint: dict[str, Any]) -> list[dict[str, Any]]:
    """The patch of an existing checkpoint. Checkpoints have no status subresource, so the object's own status is
    replaced."""
    return [{"op": "replace", "path": "/status", "value": checkpoint["status"]}]
