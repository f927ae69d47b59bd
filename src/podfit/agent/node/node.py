"""Maintains the Node object and its Lease: identity, capacity, heartbeat. Capacity reported by other clients is kept.

Works against any API server: the Node is created once, then only its status is patched, and the Lease renewed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from podfit import FULL_VERSION
from podfit.agent.config import AgentConfig, architecture
from podfit.agent.cpus.decide.state import STATIC
from podfit.agent.decide.node import pressure
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import Handler
from podfit.agent.status.partial_writes import REJECTED, write_status
from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import LEASE, NODE
from podfit.api.status import ApiError
from podfit.client.cache import Cache
from podfit.client.rest import STRATEGIC, Client
from podfit.client.transport import Unreachable
from podfit.kit.backoff import Backoff
from podfit.kit.clock import Clock, rfc3339, rfc3339_micro
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.addresses import machine_address

log = logging.getLogger(__name__)

LEASES = "kube-node-lease"
_STEP_S = 0.1
POLICY_LABEL = "podfit.dev/cpu-manager-policy"
"""Set on nodes whose CPU manager policy is static, for selectors."""
_REJECTED_S = 30.0
"""The delay before a rejected status is retried."""
FEATURES = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
)


def machine_capacity() -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    disk = os.statvfs("/")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory // 1024}Ki",
        "ephemeral-storage": f"{disk.f_blocks * disk.f_frsize // 1024}Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
    }


def _pod_range(node: Object) -> str:
    spec = node.get("spec") or {}
    listed = spec.get("podCIDRs") or [spec.get("podCIDR") or ""]
    return next((text for text in listed if text and ":" not in text), "")


class NodeKeeper:
    def __init__(self, client: Client, runtime: Runtime, config: AgentConfig, clock: Clock, tasks: Tasks) -> None:
        self._client, self._runtime, self._config, self._clock, self._tasks = client, runtime, config, clock, tasks
        self.address = config.address or machine_address()
        self.capacity: dict[str, str] = {
            **machine_capacity(),
            **config.capacity,
            "pods": str(config.max_pods),
        }
        self.allocatable = self._allocatable(self.capacity)
        self.labels: dict[str, str] = {
            "kubernetes.io/hostname": config.host,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture(),
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": architecture(),
            **({POLICY_LABEL: STATIC} if config.policy.cpu_manager == STATIC else {}),
            **config.labels,
        }
        self.registered = asyncio.Event()
        self.port = config.port
        self.max_pods = config.max_pods
        self.pressed: frozenset[str] = frozenset()
        """The pressures on the node, for the next status."""
        self.images: list[Object] = []
        """The images on this node, as its status reports them."""
        self.pod_range = ""
        """The IPv4 range of this node's pods, from the Node; "" if it has none."""
        self._ranged = asyncio.Event()
        self.problem = ""
        """The reason why this node cannot run pods now; "" if it can."""
        self._node: Object = {}
        self._lease: Object | None = None
        self._own = Cache(client, NODE, clock=clock, fieldSelector=f"metadata.name={config.node_name}")
        self._own.subscribe(self._on_change)

    def _allocatable(self, capacity: Mapping[str, str]) -> dict[str, Quantity]:
        left = {name: Quantity.parse(text) for name, text in capacity.items()}
        for name, text in (*self._config.reserved.items(), *self._config.kube_reserved.items()):
            if name in left:
                rest = left[name] - Quantity.parse(text)
                left[name] = rest if rest.nanos > 0 else Quantity(0)
        return left

    @property
    def name(self) -> str:
        return self._config.node_name

    @property
    def uid(self) -> str:
        """The uid of the Node in the API, "" until it is known."""
        return str((self._node.get("metadata") or {}).get("uid") or "")

    @property
    def known(self) -> bool:
        """Whether the API has a Node whose status can be written."""
        return self.registered.is_set() or not self._config.register

    # --- lifecycle
    async def run(self) -> None:
        """Registers, then keeps status and Lease alive until cancelled."""
        backoff = Backoff(0.2, 30.0, jitter=0.2)
        next_status, reported = 0.0, ""
        while True:
            try:
                if self._config.register and not self.registered.is_set():
                    await self._register()
                    self.registered.set()
                    # Changes that the watch delivered meanwhile, such as a pod range, count as well.
                    self._on_change(None, self._own.get("", self._config.node_name))
                    next_status = self._clock.monotonic() + self._config.status_s
                elif self._clock.monotonic() >= next_status:
                    next_status = self._clock.monotonic() + await self._publish_again()
                await self._renew()
                backoff.forget()
                reported = ""
                # Nodes of one process renew in step: writes of one loop iteration share a transaction.
                await self._clock.sleep(self._config.lease_s - self._clock.monotonic() % _STEP_S)
            except (ApiError, Unreachable) as error:
                if str(error) != reported:
                    log.warning("node %s: %s", self._config.node_name, error)
                    reported = str(error)
                if isinstance(error, ApiError) and error.code == 404:
                    # The Node was deleted: a running agent recreates it.
                    self.registered.clear()
                await self._clock.sleep(backoff.next())

    async def _publish_again(self) -> float:
        """Publishes the status again. Returns the seconds until the next time. If a server rejects the status, the
        Lease is still renewed."""
        try:
            await self.publish()
        except ApiError as error:
            if error.code not in REJECTED:
                raise
            log.warning("node %s: %s", self._config.node_name, error)
            return min(_REJECTED_S, self._config.status_s)
        return self._config.status_s

    async def follow(self) -> None:
        """Watches changes by others to the Node: its labels, and resources added to it."""
        await self._own.run()

    async def wait_for_range(self, timeout_s: float) -> None:
        """Waits until the Node has a range for its pods, or is unlikely to get one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ranged.wait()

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        if after is None or not self.known:
            return
        labels, pods = dict(after["metadata"].get("labels") or {}), _pod_range(after)
        if pods:
            self._ranged.set()
        if (labels, pods) != (self.labels, self.pod_range):
            self.labels, self.pod_range = labels, pods
            self.use_range()
        if self._allocatable({**self.capacity, **self._foreign(after)}) != self.allocatable:
            # Another client gave the Node a resource that is missing from its status.
            self._tasks.start(self._publish_soon(), "publish-node")

    def use_range(self) -> None:
        """Pods get addresses from the Node's current range."""
        self._runtime.use_range(self.pod_range)

    async def _publish_soon(self) -> None:
        try:
            await self.publish()
        except (ApiError, Unreachable) as error:
            log.info("node %s: %s", self._config.node_name, error)  # the next status reports it

    def _foreign(self, node: Object) -> dict[str, str]:
        """Capacity of the Node reported by others."""
        shown = (node.get("status") or {}).get("capacity") or {}
        return {name: text for name, text in shown.items() if name not in self.capacity}

    async def _register(self) -> None:
        found = await self._client.find(NODE, "", self._config.node_name)
        if found is None:
            body: Object = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": self._config.node_name,
                    "labels": self.labels,
                    "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
                },
                "spec": {},
            }
            if self._config.taints:
                body["spec"]["taints"] = [dict(taint) for taint in self._config.taints]
            if self._config.provider_id:
                body["spec"]["providerID"] = self._config.provider_id
            try:
                found = await self._client.create(NODE, body)
            except ApiError as error:
                if error.code != 409:
                    raise
                found = await self._client.get(NODE, "", self._config.node_name)
        self._node = found
        wanted = self.labels if POLICY_LABEL in self.labels else {**self.labels, POLICY_LABEL: None}
        missing = {key: value for key, value in wanted.items() if self._labels().get(key) != value}
        if missing:
            change = {"metadata": {"labels": missing}}
            self._node = await self._client.patch(NODE, "", self._config.node_name, change, content_type=STRATEGIC)
        self.labels, self.pod_range = {**self._labels()}, _pod_range(self._node)
        if self.pod_range:
            self._ranged.set()
        await self.publish()

    def _labels(self) -> dict[str, str]:
        return dict(self._node["metadata"].get("labels") or {})

    async def refresh(self) -> None:
        """Reads the Node if the API server is reachable: its labels may have changed."""
        try:
            self._node = await self._client.get(NODE, "", self._config.node_name)
        except (ApiError, Unreachable) as error:
            log.info("node %s: %s", self._config.node_name, error)
            return
        self.labels = self._labels()

    async def publish(self, ready: bool = True, why: str = "") -> None:
        """Sends the status: what changed, and a heartbeat."""
        self._node = await self._client.get(NODE, "", self._config.node_name)
        self.labels = self._labels()
        self.allocatable = self._allocatable({**self.capacity, **self._foreign(self._node)})
        gone = dict.fromkeys((self._node.get("status") or {}).get("allocatable") or ())
        status: Object = {
            "capacity": self.capacity,
            "allocatable": {**gone, **{name: str(quantity) for name, quantity in self.allocatable.items()}},
            "conditions": self._conditions(ready and not self.problem, why or self.problem),
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "Hostname", "address": self._config.host},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            "nodeInfo": self._info(),
            "declaredFeatures": list(FEATURES),
            "features": {"supplementalGroupsPolicy": True},
        }
        if self.images or (self._node.get("status") or {}).get("images"):
            status["images"] = self.images
        if handlers := [_handler(handler) for handler in self._runtime.handlers]:
            status["runtimeHandlers"] = handlers
        self.use_range()
        outcome = await write_status(self._send_status, self._node.get("status") or {}, status)
        if outcome.answer is None:
            raise next(iter(outcome.rejections.values()))
        self._node = outcome.answer
        for field, error in outcome.rejections.items():
            log.warning("node %s: the API server rejected status.%s: %s", self._config.node_name, field, error)

    async def _send_status(self, fields: Object) -> Object:
        return await self._client.patch(NODE, "", self._config.node_name, {"status": fields}, "status", STRATEGIC)

    def _conditions(self, ready: bool, why: str) -> list[Object]:
        known = {condition["type"]: condition for condition in (self._node.get("status") or {}).get("conditions") or ()}
        now = rfc3339(self._clock.now())
        wanted = pressure.conditions(self.pressed)
        if ready:
            wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
        else:
            wanted.append(("Ready", "False", "KubeletNotReady", why))
        conditions: list[Object] = []
        for kind, state, reason, message in wanted:
            old = known.get(kind) or {}
            since = old.get("lastTransitionTime") if old.get("status") == state else now
            conditions.append(
                {
                    "type": kind,
                    "status": state,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": since or now,
                    "reason": reason,
                    "message": message,
                }
            )
        return conditions

    def _info(self) -> Object:
        return {
            "machineID": _line("/etc/machine-id"),
            "systemUUID": _line("/sys/class/dmi/id/product_uuid") or _line("/etc/machine-id"),
            "bootID": _line("/proc/sys/kernel/random/boot_id"),
            "kernelVersion": platform.release(),
            "osImage": _os_image(),
            "containerRuntimeVersion": f"{self._runtime.name}://{self._runtime.version}",
            "kubeletVersion": FULL_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": architecture(),
        }

    # --- the Lease
    async def _renew(self) -> None:
        now = rfc3339_micro(self._clock.now())
        if self._lease is None:
            self._lease = await self._client.find(LEASE, LEASES, self._config.node_name)
        if self._lease is None:
            self._lease = await self._new_lease(now)
            return
        # The server tracks field ownership: it keeps that of an update without managedFields.
        meta = {name: value for name, value in self._lease["metadata"].items() if name != "managedFields"}
        spec = {**(self._lease.get("spec") or {}), **self._lease_spec(now)}
        lease = {**self._lease, "metadata": meta, "spec": spec}
        try:
            self._lease = await self._client.update(LEASE, lease)
        except ApiError as error:
            self._lease = None
            if error.code not in (404, 409):
                raise

    async def _new_lease(self, now: str) -> Object | None:
        meta: Object = {"name": self._config.node_name, "namespace": LEASES}
        if self._node:
            owner = self._node["metadata"]
            meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": owner["name"], "uid": owner["uid"]}]
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
        try:
            return await self._client.create(LEASE, {**body, "spec": self._lease_spec(now)})
        except ApiError as error:
            if error.code in (404, 409):
                # The control plane creates the namespace; until then the status is the heartbeat.
                return None
            raise

    def _lease_spec(self, now: str) -> Object:
        return {
            "holderIdentity": self._config.node_name,
            "leaseDurationSeconds": self._config.lease_duration_s,
            "renewTime": now,
        }

    async def leave(self) -> None:
        """Deletes the Node; controllers handle the pods bound to it."""
        for kind, namespace in ((LEASE, LEASES), (NODE, "")):
            try:
                await self._client.delete(kind, namespace, self._config.node_name)
            except (ApiError, Unreachable) as error:
                log.info("deregistering %s: %s", self._config.node_name, error)


def _handler(handler: Handler) -> Object:
    features = {
        "recursiveReadOnlyMounts": handler.recursive_read_only_mounts,
        "userNamespaces": handler.user_namespaces,
    }
    return {"name": handler.name, "features": features}


def _line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"
