"""Decides whether a pod uses more of the node's disk than it may, and composes the eviction message. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.api.pods.resources import container_limits, pod_limits
from podfit.api.quantity import Quantity

STORAGE = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class DiskUse:
    """A pod's usage of the node's disk."""

    containers: Mapping[str, int] = field(default_factory=dict)
    """Bytes by container: its writable layer, logs and termination messages."""
    volumes: Mapping[str, int] = field(default_factory=dict)
    """Bytes by emptyDir; memory-backed ones are not on the disk."""
    inodes: int = 0
    files: int = 0
    """Bytes of files shared by all containers, such as /etc/hosts."""

    @property
    def bytes(self) -> int:
        return sum(self.containers.values()) + sum(self.volumes.values()) + self.files


def disk_volumes(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A pod's own volumes on the node's disk."""
    for volume in pod["spec"].get("volumes") or ():
        if "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory":
            yield volume


def is_limited(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's disk usage is limited; if not, it need not be measured."""
    return STORAGE in pod_limits(pod) or any(_size_limit(volume) for volume in disk_volumes(pod))


def over_limit(pod: Mapping[str, Any], use: DiskUse) -> str:
    """The reason why the pod has to be evicted, worded as by the kubelet; "" if it need not be. Volumes are checked
    first, then the pod, then its containers."""
    for volume in disk_volumes(pod):
        limit = _size_limit(volume)
        if limit is not None and use.volumes.get(volume["name"], 0) > limit.value:
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    whole = pod_limits(pod).get(STORAGE)
    if whole is not None and use.bytes > whole.value:
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {whole}. "
    for container in pod["spec"].get("containers") or ():
        limit = container_limits(container).get(STORAGE)
        if limit is not None and limit.value and use.containers.get(container["name"], 0) > limit.value:
            return f'Container {container["name"]} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def _size_limit(volume: Mapping[str, Any]) -> Quantity | None:
    limit = Quantity.parse(str((volume["emptyDir"] or {}).get("sizeLimit") or 0))
    return limit if limit.nanos > 0 else None
