"""Whether a pod uses more of the node's disk than it may, and in which words it is evicted for that. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from podfit.api.pods.resources import container_limits, pod_limits
from podfit.api.quantity import Quantity

STORAGE = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What a pod has on the node's disk."""

    containers: Mapping[str, int] = field(default_factory=dict)
    """Bytes by container: what it wrote to its root file system, its logs and its termination messages."""
    volumes: Mapping[str, int] = field(default_factory=dict)
    """Bytes by emptyDir; those in memory are not on the disk."""
    inodes: int = 0
    files: int = 0
    """Bytes of the files that all containers share, such as /etc/hosts."""

    @property
    def bytes(self) -> int:
        return sum(self.containers.values()) + sum(self.volumes.values()) + self.files


def disk_volumes(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A pod's volumes whose contents are its own and lie on the node's disk."""
    for volume in pod["spec"].get("volumes") or ():
        if "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory":
            yield volume


def is_limited(pod: Mapping[str, Any]) -> bool:
    """Whether anything limits its use of the disk; if not, there is no need to measure it."""
    return STORAGE in pod_limits(pod) or any(_size_limit(volume) for volume in disk_volumes(pod))


def over_limit(pod: Mapping[str, Any], use: DiskUse) -> str:
    """Why it has to go, in a kubelet's words; "" if it may stay. First volumes, then the pod, then its containers."""
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
