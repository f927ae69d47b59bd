"""Shared by the tests of the designs' test plans: a whole cluster on real cgroups, pods that only wait, and one check.

The check is upstream's: when the resize conditions are gone, the status is read once and compared exactly, and the
kernel is read twice, through the host's files and by a command inside the container.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from podfit.agent.agent import Agent
from podfit.agent.probes.commands import run_command
from podfit.agent.runtimes.process.support import check_support
from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import EVENT, POD
from podfit.client.rest import STRATEGIC
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole

MISSING = check_support()
needs_cgroups = pytest.mark.skipif(bool(MISSING), reason="; ".join(MISSING) or "cgroups are there")

WAITS = "trap 'exit 0' TERM; while :; do sleep 1d & wait $!; done"
"""Exits at once on SIGTERM, so that a restart does not take the grace period."""
NO_LIMIT = (1 << 63) - 4096
PAGE = os.sysconf("SC_PAGE_SIZE")
IN_CONTAINER = (
    "cat /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/memory/memory.limit_in_bytes"
)
IN_CONTAINER_V2 = "cat /sys/fs/cgroup/cpu.weight /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max"
V1 = Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists()
RESIZE = ("PodResizePending", "PodResizeInProgress")


# --- building -------------------------------------------------------------------------------------------------------


def sizes(requests: str = "", limits: str = "") -> Object:
    """`sizes("100m/32Mi", "200m/64Mi")`; either resource of an amount may be omitted ("100m", "/32Mi"), and either
    argument.
    """
    found: Object = {}
    for side, text in (("requests", requests), ("limits", limits)):
        cpu, _, memory = text.partition("/")
        if text:
            found[side] = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    return found


def exactly(text: str) -> Object:
    """Requests and limits that are equal."""
    return sizes(text, text)


def policy(*restarting: str) -> list[Object]:
    return [
        {"resourceName": name, "restartPolicy": "RestartContainer" if name in restarting else "NotRequired"}
        for name in ("cpu", "memory")
    ]


def container(name: str = "c1", resources: Object | None = None, command: str = WAITS, **more: Any) -> Object:
    built = {"name": name, "image": "host", "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", command], **more}
    return built if resources is None else {**built, "resources": resources}


def sidecar(name: str, resources: Object, **more: Any) -> Object:
    return container(name, resources, restartPolicy="Always", **more)


def pod(
    name: str, *containers: Object, namespace: str = "default", init: tuple[Object, ...] = (), **spec: Any
) -> Object:
    body: Object = {
        "nodeName": "n1",
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": list(containers),
        **({"initContainers": list(init)} if init else {}),
        **spec,
    }
    if not body["nodeName"]:
        del body["nodeName"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": body}


def patch_of(
    changes: Mapping[str, Object], init: Mapping[str, Object] | None = None, whole: Object | None = None
) -> Object:
    spec: Object = {}
    if changes:
        spec["containers"] = [{"name": name, "resources": item} for name, item in changes.items()]
    if init:
        spec["initContainers"] = [{"name": name, "resources": item} for name, item in init.items()]
    if whole is not None:
        spec["resources"] = whole
    return {"spec": spec}


# --- expecting ------------------------------------------------------------------------------------------------------


def conditions(seen: Object, *types: str) -> dict[str, Object]:
    found = {condition["type"]: condition for condition in seen["status"].get("conditions") or ()}
    return {name: item for name, item in found.items() if not types or name in types}


def is_ready(seen: Object | None) -> bool:
    return seen is not None and conditions(seen).get("Ready", {}).get("status") == "True"


def is_settled(seen: Object | None) -> bool:
    if seen is None or not is_ready(seen) or conditions(seen, *RESIZE):
        return False
    return bool(seen["status"].get("observedGeneration", 0) >= seen["metadata"]["generation"])


def milli(text: str) -> int:
    return Quantity.parse(text).milli


def size(text: str) -> int:
    return Quantity.parse(text).value


@dataclass(frozen=True)
class Kernel:
    shares: int
    quota_us: int
    memory: int

    @classmethod
    def for_container(cls, resources: Object, whole: Object) -> Kernel:
        """The values that Kubernetes puts into a container's cgroup: its own limits, else the pod's."""
        requests, own = resources.get("requests") or {}, resources.get("limits") or {}
        limits = {**(whole.get("limits") or {}), **own}
        asked = {**limits, **own, **requests}.get("cpu", "0")
        return cls._of(milli(asked), limits.get("cpu"), limits.get("memory"))

    @classmethod
    def for_pod(cls, spec: Object) -> Kernel:
        """The sum over containers and sidecars, or the pod-level resources; no limit if one of them has none."""
        whole = spec.get("resources") or {}
        total: dict[tuple[str, str], int | None] = {}
        for side, name in (("requests", "cpu"), ("limits", "cpu"), ("limits", "memory")):
            total[side, name] = _sum(spec, side, name)
            if name in (whole.get(side) or {}):
                total[side, name] = milli(whole[side][name])
        cpu, memory = total["limits", "cpu"], total["limits", "memory"]
        return cls._of(
            total["requests", "cpu"] or 0,
            None if cpu is None else f"{cpu}m",
            None if memory is None else str(memory // 1000),
        )

    @classmethod
    def _of(cls, cpu: int, cpu_limit: str | None, memory_limit: str | None) -> Kernel:
        quota = -1 if cpu_limit is None else max(milli(cpu_limit) * 100, 1000)
        memory = NO_LIMIT if memory_limit is None else size(memory_limit) // PAGE * PAGE
        return cls(max(cpu * 1024 // 1000, 2), quota, memory)

    @classmethod
    def parse(cls, text: str) -> Kernel:
        if V1:
            shares, quota, memory = (int(word) for word in text.split())
            return cls(shares, quota, memory)
        weight, quota_text, _, memory_text = text.split()
        shares = (int(weight) - 1) * 262142 // 9999 + 2
        return cls(shares, _number(quota_text, -1), _number(memory_text, NO_LIMIT))

    def agrees(self, other: Kernel) -> bool:
        """Compares only limits on v2, whose weights are coarser than shares."""
        limits = (self.quota_us, self.memory) == (other.quota_us, other.memory)
        return limits and (not V1 or self.shares == other.shares)


def _number(text: str, unlimited: int) -> int:
    return unlimited if text == "max" else int(text)


def _sum(spec: Object, side: str, name: str) -> int | None:
    """Containers and sidecars together, or an init container with the sidecars before it if that is more."""

    def of(obj: Object) -> int | None:
        value = ((obj.get("resources") or {}).get(side) or {}).get(name)
        return None if value is None else milli(value)

    inits = spec.get("initContainers") or []
    known = [of(item) for item in [*spec["containers"], *inits]]
    if side == "limits" and None in known:
        return None
    beside, most = 0, 0
    for init in inits:
        if init.get("restartPolicy") == "Always":
            beside += of(init) or 0
        else:
            most = max(most, beside + (of(init) or 0))
    return max(most, beside + sum(of(listed) or 0 for listed in spec["containers"]))


# --- the cluster ----------------------------------------------------------------------------------------------------


class Lab(Whole):
    """`podfit up` in this process, its pods on real cgroups."""

    def __init__(self, folder: Path, **options: Any) -> None:
        capacity = {"cpu": "16", "memory": "20Gi"}
        super().__init__(folder, **{"runtime": "process", "node_capacity": capacity, "stop_pods": True, **options})

    @property
    def agent(self) -> Agent:
        return self.up.agents[0]

    async def get(self, name: str, namespace: str = "default") -> Object:
        return await self.client.get(POD, namespace, name)

    async def create(self, body: Object) -> Object:
        return await self.client.create(POD, body)

    async def run(self, *bodies: Object) -> Object:
        """Creates all of them, waits until they are ready, and returns the first."""
        await asyncio.gather(*(self.create(body) for body in bodies))
        return (await asyncio.gather(*(self.ready(body) for body in bodies)))[0]

    async def ready(self, body: Object) -> Object:
        return await self.until(body["metadata"]["name"], is_ready, body["metadata"]["namespace"])

    async def until(self, name: str, true: Any, namespace: str = "default", patience_s: float = 15.0) -> Object:
        try:
            seen = await becomes(self.client, POD, namespace, name, true, patience_s)
        except AssertionError:
            last = await self.client.find(POD, namespace, name)
            raise AssertionError(self._told(name, last)) from None
        assert seen is not None
        return seen

    def _told(self, name: str, last: Object | None) -> str:
        if last is None:
            return f"pod {name} is gone"
        story = [" ".join(f"{value}" for value in item.values()) for item in self.agent.story(last["metadata"]["uid"])]
        return "\n".join([f"pod {name} never became so: {last['status']}", *story])

    async def delete(self, *names: str, namespace: str = "default") -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for name in names:
            if await self.client.find(POD, namespace, name) is not None:
                await self.client.delete(POD, namespace, name, options)
        gone = (becomes(self.client, POD, namespace, name, lambda obj: obj is None) for name in names)
        await asyncio.gather(*gone)

    async def clear(self, namespace: str = "default") -> None:
        """Cleans up after a test: nothing is left for the next one."""
        listed = await self.client.list(POD, namespace)
        await self.delete(*(item["metadata"]["name"] for item in listed["items"]), namespace=namespace)

    async def patch(self, name: str, patch: Object, namespace: str = "default") -> Object:
        return await self.client.patch(POD, namespace, name, patch, "resize", STRATEGIC)

    async def settled(self, name: str, namespace: str = "default") -> Object:
        return await self.until(name, is_settled, namespace)

    async def events(self, name: str, reason: str = "") -> list[str]:
        """The messages of the pod's Events, of one reason or of all reasons."""
        await self.agent.idle()
        listed = (await self.client.list(EVENT, "default"))["items"]
        mine = [event for event in listed if event["involvedObject"]["name"] == name]
        return [event["message"] for event in mine if reason in ("", event["reason"])]

    # the kernel
    def group(self, seen: Object) -> str:
        folder = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}[seen["status"]["qosClass"]]
        root = str(getattr(self.agent.runtime, "cgroup_root", ""))
        return f"{root}{folder}/pod{seen['metadata']['uid']}"

    def host(self, seen: Object, name: str = "") -> Kernel:
        """The cgroup files on the host, of a container or of the pod."""
        group = self.group(seen)
        if name:
            group += "/" + statuses(seen)[name]["containerID"].partition("://")[2]
        return kernel_at(group)

    async def inside(self, seen: Object, name: str) -> Kernel:
        return Kernel.parse(await self.shell(seen, name, IN_CONTAINER if V1 else IN_CONTAINER_V2))

    async def shell(self, seen: Object, name: str, command: str) -> str:
        cid = statuses(seen)[name]["containerID"].partition("://")[2]
        code, output = await run_command(self.agent.runtime, cid, ["/bin/sh", "-c", command])
        assert code == 0, output
        return output

    async def verify(self, seen: Object, restarts: Mapping[str, int] | None = None) -> None:
        """Everything that upstream's suite checks after each step, on the object as read when the resize settled."""
        spec, status = seen["spec"], seen["status"]
        assert status["observedGeneration"] == seen["metadata"]["generation"]
        assert not conditions(seen, *RESIZE)
        for members, key in (
            (spec["containers"], "containerStatuses"),
            (spec.get("initContainers") or [], "initContainerStatuses"),
        ):
            shown = status.get(key) or []
            assert [entry["name"] for entry in shown] == [entry["name"] for entry in members]
            for member, item in zip(members, shown, strict=True):
                await self._verify_one(seen, member, item, (restarts or {}).get(member["name"], 0))
        assert self.host(seen).agrees(Kernel.for_pod(spec)), (self.host(seen), Kernel.for_pod(spec))
        assert status["allocatedResources"] == status["resources"].get("requests", {})

    async def there_and_back(
        self, body: Object, changes: Mapping[str, Object], init: Mapping[str, Object] | None = None
    ) -> None:
        """Runs the pod, resizes it, reverts the resize, and checks each time."""
        name, spec = body["metadata"]["name"], body["spec"]
        members = {entry["name"]: entry for entry in [*spec["containers"], *(spec.get("initContainers") or ())]}
        wanted = {**changes, **(init or {})}
        counts = dict.fromkeys(members, 0)
        seen = await self.run(body)
        await self.verify(seen)
        for backwards in (False, True):
            for key in wanted:
                counts[key] += restarts(members[key], wanted[key])
            now = {key: members[key]["resources"] for key in wanted} if backwards else wanted
            await self.patch(name, patch_of({k: now[k] for k in changes}, {k: now[k] for k in init or {}}))
            before, seen = seen, await self.settled(name)
            await self.verify(seen, counts)
            assert_same_unless_restarted(before, seen)

    async def _verify_one(self, seen: Object, member: Object, shown: Object, restarts: int) -> None:
        resources = member.get("resources") or {}
        assert shown["resources"] == resources, shown
        assert shown.get("allocatedResources") == resources.get("requests"), shown
        assert shown["restartCount"] == restarts, shown
        if "running" not in shown["state"]:
            return
        wanted = Kernel.for_container(resources, seen["spec"].get("resources") or {})
        found = self.host(seen, member["name"]), await self.inside(seen, member["name"])
        assert all(entry.agrees(wanted) for entry in found), (member["name"], found, wanted)


def statuses(seen: Object) -> dict[str, Object]:
    shown = [*(seen["status"].get("initContainerStatuses") or ()), *(seen["status"].get("containerStatuses") or ())]
    return {entry["name"]: entry for entry in shown}


def restarts(member: Object, after: Object) -> bool:
    """Whether the request or limit of a resource changes whose policy restarts the container."""
    before, policies = member["resources"], member.get("resizePolicy") or ()
    names = [entry["resourceName"] for entry in policies if entry["restartPolicy"] == "RestartContainer"]
    sides = [((before.get(side) or {}), (after.get(side) or {})) for side in ("requests", "limits")]
    return any(old.get(name) != new.get(name) for old, new in sides for name in names)


def assert_same_unless_restarted(before: Object, after: Object) -> None:
    """Checks that a container that did not restart has the same ID."""
    for name, entry in statuses(after).items():
        old = statuses(before)[name]
        assert (entry["containerID"] == old["containerID"]) == (entry["restartCount"] == old["restartCount"]), name


def kernel_at(group: str) -> Kernel:
    point = Path("/sys/fs/cgroup")
    if V1:
        cpu, memory = point / "cpu" / group[1:], point / "memory" / group[1:]
        files = [cpu / "cpu.shares", cpu / "cpu.cfs_quota_us", memory / "memory.limit_in_bytes"]
    else:
        files = [point / group[1:] / name for name in ("cpu.weight", "cpu.max", "memory.max")]
    return Kernel.parse(" ".join(file.read_text() for file in files))
