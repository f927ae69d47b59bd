"""Makes the runtime of a node from its settings: the only file that names a concrete one. Ends what one left behind.

Names in the machine (cgroups, network namespaces, labels in a container runtime) are bound to the data directory. So
another podfit on the machine has others, and a restart finds its own again.
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
    """"host" runs images that are absent on the node's own files."""
    network: NetworkSettings | None = None
    """Of the process runtime; others have CNI of their own."""
    endpoint: str = CONTAINERD
    """Where the runtime of kind "cri" listens."""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    """Further runtimes, by the handler of the RuntimeClass that chooses them."""
    cgroup_root: str = ""
    """Parent of `kubepods`; "" for one of the agent's own."""
    insecure_registries: tuple[str, ...] = ()
    """Asked for images without TLS, or with any certificate. Of the process runtime."""


def make_runtime(settings: RuntimeSettings, folder: Path, clock: Clock, address: str = "") -> Runtime:
    """`address`: the node's, which pods without a network of their own share."""
    made = _make(settings, folder, clock, reached_at(address))
    if not settings.endpoints:
        return made
    from podfit.agent.runtimes.routed import RoutedRuntime

    name = f"podfit-{_mark(folder)}"
    others = {
        # Under a name and below a root of its own: the process runtime ends whatever it does not know below its root,
        # and two endpoints may lead to one runtime.
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
    """`name`: what its pods are labelled with, and their cgroups are below unless `cgroup_root` says otherwise."""
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
    """Ends the pods that a `podfit up` or `podfit agent` on this data directory left running; returns how many."""
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
