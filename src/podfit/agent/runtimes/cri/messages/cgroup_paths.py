"""Computes the cgroup paths of pods, as laid out by a kubelet: by QoS class, below one root.

The cgroupfs driver uses folders (`/kubepods/burstable/pod1234`). The systemd driver uses slices, each of which repeats
the names above it (`/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234.slice`).
"""

from __future__ import annotations

from podfit.cri import CriClient, CriError
from podfit.cri import api_pb2 as api
from podfit.cri.configuration import configuration, uses_systemd

CGROUPFS, SYSTEMD = "cgroupfs", "systemd"
KUBEPODS = "kubepods"
_QOS = {"Guaranteed": (), "Burstable": ("burstable",), "BestEffort": ("besteffort",)}


def path(names: tuple[str, ...], driver: str) -> str:
    if driver != SYSTEMD:
        return "/" + "/".join(names)
    plain = [name.replace("-", "_") for name in names]
    return "".join(f"/{'-'.join(plain[: depth + 1])}.slice" for depth in range(len(plain)))


class CgroupPaths:
    def __init__(self, root: str = "/", driver: str = CGROUPFS) -> None:
        """`root`: the parent of `kubepods`, as in the kubelet's --cgroup-root."""
        self.driver = driver
        self._above = tuple(name for name in root.split("/") if name)

    @property
    def root(self) -> str:
        """The group below which all pods are."""
        return path((*self._above, KUBEPODS), self.driver)

    @property
    def own(self) -> str:
        """The group that may be removed with the last pod. "" for the machine's root, whose `kubepods` other programs
        may use."""
        return path(self._above, self.driver) if self._above else ""

    def pod(self, qos: str, uid: str) -> str:
        return path((*self._above, KUBEPODS, *_QOS[qos], f"pod{uid}"), self.driver)


async def cgroup_driver(client: CriClient, status: api.StatusResponse) -> str:
    """The runtime's cgroup driver. Older runtimes do not report it: then it is read from containerd's configuration."""
    try:
        answer = await client.ask("RuntimeConfig", api.RuntimeConfigRequest())
    except CriError:
        return SYSTEMD if uses_systemd(configuration(status)) else CGROUPFS
    return SYSTEMD if answer.HasField("linux") and answer.linux.cgroup_driver == api.SYSTEMD else CGROUPFS
