"""A runtime that exits before or after any write while it creates, starts or removes a VM: after the caller's
retry there is one VM or none, and nothing else is left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.sabotage import Saboteur
from tests.vms import GUEST, Vms, guest_archive, needs_vms, resources, serving

from podfit.cri import api_pb2 as cri

pytestmark = needs_vms
MOST_WRITES = 30
GROUP = "podfit-test-crashes"


@pytest.fixture
def saboteur(monkeypatch: pytest.MonkeyPatch) -> Saboteur:
    from podfit.images.store import ImageStore
    from podfit.vm.cgroups import Cgroups
    from podfit.vm.guest.disks import Disks
    from podfit.vm.machines.hypervisor import Hypervisor
    from podfit.vm.machines.machine import Machine
    from podfit.vm.records import Records

    found = Saboteur()
    writes: dict[type, tuple[str, ...]] = {
        Records: ("save", "save_sandbox", "drop"),
        ImageStore: ("lease", "release"),
        Disks: ("create", "remove"),
        Cgroups: ("create", "write", "remove"),
        Hypervisor: ("define",),
        Machine: ("start", "destroy", "undefine"),
    }
    for owner, names in writes.items():
        for name in names:
            monkeypatch.setattr(owner, name, found.wrapped(getattr(owner, name)))
    return found


async def brought_up(vms: Vms) -> str:
    """Acts as a kubelet, which lists what exists before it creates anything."""
    config = await vms.sandbox("crash")
    config.linux.cgroup_parent = f"/{GROUP}"
    sandbox = (await vms.runtime["RunPodSandbox"](cri.RunPodSandboxRequest(config=config))).pod_sandbox_id
    found = (await vms.runtime["ListContainers"](cri.ListContainersRequest())).containers
    live = [item for item in found if item.state != cri.ContainerState.CONTAINER_EXITED]
    if not live:
        container = cri.ContainerConfig(
            metadata=cri.ContainerMetadata(name="vm", attempt=len(found)),
            image=cri.ImageSpec(image=GUEST),
            linux=cri.LinuxContainerConfig(resources=resources(1, 128)),
        )
        request = cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=container, sandbox_config=config)
        id = str((await vms.runtime["CreateContainer"](request)).container_id)
    else:
        id = str(live[0].id)
    if not live or live[0].state == cri.ContainerState.CONTAINER_CREATED:
        await vms.runtime["StartContainer"](cri.StartContainerRequest(container_id=id))
    return id


async def one_vm(folder: Path, runtime: Any, vms: Vms) -> None:
    id = await brought_up(vms)
    container = runtime.container(id)
    pid = runtime.lives.machine(container).pid()
    assert (await vms.status(id)).state == cri.ContainerState.CONTAINER_RUNNING
    assert await runtime.hypervisor.names() == {container.uuid: container.domain}
    assert {path.parent.name for path in Path("/sys/fs/cgroup").glob(f"*/{GROUP}/*/cgroup.procs")} == {id}
    assert runtime.cgroups.exists(container.group) and Path(f"/proc/{pid}").exists()
    assert left_in(folder) == [id, id]


async def no_vm(folder: Path, runtime: Any, vms: Vms) -> None:
    await vms.remove_all()
    assert not runtime.records.containers and not runtime.records.sandboxes
    assert await runtime.hypervisor.names() == {}
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{GROUP}/*/"))
    assert left_in(folder) == []


def left_in(folder: Path) -> list[str]:
    """The VMs that have a folder, and those that hold an image."""
    leases = [path.name.rpartition("-")[2] for path in folder.glob("images/leases/*/*")]
    return sorted([path.name for path in folder.glob("vms/*/")] + leases)


Work = Callable[[Vms], Awaitable[Any]]


async def cut_off(folder: Path, saboteur: Saboteur, at: int, after: bool, work: Work) -> bool:
    """Whether the process died at this write; there may be fewer writes."""
    async with serving(folder, keep=True) as (_, vms):
        saboteur.arm(at, after)
        with suppress(grpc.aio.AioRpcError):
            await work(vms)
    died = saboteur.dead
    saboteur.disarm()
    return died


@pytest.mark.parametrize(
    ("step", "least"), [(4, 6), pytest.param(1, 30, marks=pytest.mark.slow)], ids=["some writes", "every write"]
)
async def test_a_crash_at_any_write_of_a_vms_life_loses_none_starts_none_twice_and_leaves_nothing(
    tmp_path: Path, saboteur: Saboteur, step: int, least: int
) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)):
        pass
    points = 0
    for after in (False, True):
        for at in range(0, MOST_WRITES, step):
            died = await cut_off(tmp_path, saboteur, at, after, brought_up)
            async with serving(tmp_path, keep=True) as (runtime, vms):
                await one_vm(tmp_path, runtime, vms)
            removal = await cut_off(tmp_path, saboteur, at, after, Vms.remove_all)
            async with serving(tmp_path, keep=True) as (runtime, vms):
                await no_vm(tmp_path, runtime, vms)
            points += died + removal
            if not died and not removal:
                break
    assert points > least
