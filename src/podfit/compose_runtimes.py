"""Creates the runtime of a node from its settings: the only file that names a concrete one. Also stops leftover pods.

Names on the machine (cgroups, network namespaces, labels in a container runtime) are derived from the data directory.
Another podfit on the machine has different names, and a restarted one finds its own again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from podfit.kit.badsetting import BadSetting
from podfit.kit.clock import Clock, RealClock
from podfit.kit.web.addresses import reached_at

if TYPE_CHECKING:
    from podfit.agent.runtimes.base import Runtime
    from podfit.podnet.network import NetworkSettings

CONTAINERD = "unix:///run/containerd/containerd.sock"
KINDS = ("process", "cri", "fake")


@dataclass(frozen=True)
class RuntimeSettings:
    kind: str = "process"
    image_fallback: str = ""
    """"host" runs missing images on the node's own files."""
    network: NetworkSettings | None = None
    """For the process runtime; others have their own CNI."""
    endpoint: str = CONTAINERD
    """The endpoint of a runtime of kind "cri"."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Additional runtimes, by the RuntimeClass handler that selects them."""
    cgroup_root: str = ""
    """The parent of `kubepods`; "" for one owned by the agent."""
    insecure_registries: tuple[str, ...] = ()
    """Registries without TLS, or with any certificate. For the process runtime."""


def make_runtime(settings: RuntimeSettings, folder: Path, clock: Clock, address: str = "") -> Runtime:
    """`address`: the node's, which pods without their own network share."""
    made = _make(settings, folder, clock, reached_at(address))
    if not settings.endpoints:
        return made
    from podfit.agent.runtimes.routed import RoutedRuntime

    name = f"podfit-{_mark(folder)}"
    others = {
        # With its own name and root: the process runtime kills everything unknown below its root, and two endpoints may
        # lead to the same runtime.
        handler: _cri(url, folder / f"cri-{handler}", settings.cgroup_root, f"{name}-{handler}", reached_at(address))
        for handler, url in settings.endpoints.items()
    }
    return RoutedRuntime(made, others)


def _mark(folder: Path) -> str:
    return hashlib.sha256(f"{folder.absolute()}".encode()).hexdigest()[:8]


def _make(settings: RuntimeSettings, folder: Path, clock: Clock, host_ip: str) -> Runtime:
    if settings.kind == "fake":
        from podfit.agent.runtimes.fake.runtime import FakeRuntime

        return FakeRuntime(clock, host_ip=host_ip)
    if settings.kind == "process":
        from podfit.agent.runtimes.process.runtime import ProcessRuntime
        from podfit.agent.runtimes.values import hidden_folder
        from podfit.images.store import IMAGES
        from podfit.podnet.network import NetworkSettings, PodNetwork

        mark = _mark(folder)
        return ProcessRuntime(
            folder / "runtime",
            cgroup_root=f"/podfit-{mark}",
            host_ip=host_ip,
            image_fallback=settings.image_fallback,
            insecure_registries=settings.insecure_registries,
            images_dir=hidden_folder(folder.absolute()) / IMAGES,
            network=PodNetwork(folder.absolute() / "runtime" / "network", mark, settings.network or NetworkSettings()),
        )
    if settings.kind == "cri":
        return _cri(settings.endpoint, folder / "cri", settings.cgroup_root, f"podfit-{_mark(folder)}", host_ip)
    raise BadSetting(f"--runtime {settings.kind!r}: it is one of {', '.join(KINDS)}")


def _cri(endpoint: str, data_dir: Path, cgroup_root: str, name: str, host_ip: str) -> Runtime:
    """`name`: the label of its pods, and the parent of their cgroups unless `cgroup_root` is set."""
    try:
        from podfit.agent.runtimes.cri.runtime import CriRuntime
        from podfit.cri import BadEndpoint
    except ImportError as error:
        raise BadSetting(f"--runtime cri needs more libraries: pip install 'podfit[cri]' ({error})") from error
    try:
        return CriRuntime(endpoint, name, data_dir, cgroup_root or f"/{name}", host_ip)
    except BadEndpoint as error:
        raise BadSetting(f"--container-runtime-endpoint {error}") from error


async def remove_leftovers(data_dir: Path) -> int:
    """Stops the pods that a `podfit up` or `podfit agent` on this data directory left running; returns their number."""
    from podfit.agent.furnish.volumes.volumes import remove_memory_volumes
    from podfit.compose_vm import vms_reached

    ended = 0
    for folder in sorted([*data_dir.glob("nodes/*/runtime"), *data_dir.glob("runtime")]):
        ended += await _purge(make_runtime(RuntimeSettings(), folder.parent, RealClock()))
        remove_memory_volumes(folder.parent / "pods")
    async with vms_reached(data_dir):
        ended += await _purge_cri(data_dir)
    return ended


async def _purge_cri(data_dir: Path) -> int:
    from podfit.agent.furnish.volumes.volumes import remove_memory_volumes

    ended = 0
    for folder in sorted([*data_dir.glob("nodes/*/cri*"), *data_dir.glob("cri*")]):
        from podfit.agent.runtimes.cri.notes import read_note

        if (note := read_note(folder)) is not None:
            ended += await _purge(_cri(note.endpoint, folder, note.cgroup_root, note.node, ""))
            remove_memory_volumes(folder.parent / "pods")
    return ended


async def _purge(runtime: Runtime) -> int:
    from podfit.agent.runtimes.base import running_pods

    await runtime.open()
    running = len(await running_pods(runtime))
    await runtime.purge()
    await runtime.close()
    return running
