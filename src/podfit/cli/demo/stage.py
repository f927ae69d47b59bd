"""The demo's cluster: everything of `podfit up`, the demo's pods on it, and simulated manual resizes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from pathlib import Path

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, POD, VPA, kind_named
from podfit.api.registry.kinds import NAMESPACE as NAMESPACES
from podfit.api.status import ApiError
from podfit.apiserver.request import ADMIN
from podfit.cli.demo.autoscaling import SCRAPE_S, start_autoscaler
from podfit.cli.demo.history import Moved, Seen
from podfit.cli.demo.objects import LARGE, NAMESPACE, SMALL, autoscalers, deployments
from podfit.cli.node_side import states
from podfit.client import Cache
from podfit.client.rest import STRATEGIC
from podfit.client.transport import Unreachable
from podfit.compose import Up, UpOptions
from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.addresses import free_port
from podfit.meter.meter import MeterConfig

FIRST_VISIT_S, BETWEEN_VISITS_S = 8.0, 16.0
TIMEOUT_S = 20.0


class Stage:
    def __init__(self, options: UpOptions) -> None:
        # The autoscaler is started here, with the demo's settings.
        self.up = Up(replace(options, stop_pods=True, vpa=False))
        self.real = options.runtime == "process"
        self.client = self.up.client(ADMIN, "demo")
        self.pods = Cache(self.client, POD, NAMESPACE)
        self.events = Cache(self.client, EVENT, NAMESPACE)
        self.seen = Seen()
        self.typed: list[str] = []
        """The latest manual resize, as the command to run."""
        self.started = time.monotonic()
        self._tasks = Tasks("demo")

    @property
    def kubeconfig(self) -> Path:
        return self.up.kubeconfig

    async def open(self) -> None:
        await self.up.start()
        await self._clear()
        if self.up.meter is not None:
            self.up.meter.config = MeterConfig(interval_s=SCRAPE_S, second_look_s=SCRAPE_S / 2)
        start_autoscaler(self.up.client(ADMIN, "autoscaler"), self._tasks)
        await self.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for body in deployments(free_port(), self.real):
            await self.client.create(kind_named("Deployment"), body)
        for body in autoscalers():
            await self.client.create(VPA, body)
        self._tasks.start(self.pods.run(), "pods")
        self._tasks.start(self.events.run(), "events")
        self._tasks.start(self._visit(), "visitor")

    async def close(self) -> None:
        await self._tasks.stop()
        with contextlib.suppress(ApiError, Unreachable, TimeoutError):
            await self._clear()
            async with asyncio.timeout(TIMEOUT_S):
                while any(agent.records for agent in self.up.agents):
                    await asyncio.sleep(0.05)
        await self.up.stop()

    async def _clear(self) -> None:
        """Deletes the objects created by this demo, or by an earlier one that was killed."""
        if await self.client.find(NAMESPACES, "", NAMESPACE) is None:
            return
        await self.client.delete(NAMESPACES, "", NAMESPACE)
        async with asyncio.timeout(TIMEOUT_S):
            while await self.client.find(NAMESPACES, "", NAMESPACE) is not None:
                await asyncio.sleep(0.1)

    # --- observation
    def running(self) -> list[Object]:
        pods = [
            pod for pod in self.pods if not pod["metadata"].get("deletionTimestamp") and pod["spec"].get("nodeName")
        ]
        return sorted(pods, key=lambda pod: ["web", "load", "worker"].index(pod["metadata"]["labels"]["app"]))

    async def check(self) -> list[Moved]:
        """Observes every pod: its sizes according to the node, and its usage."""
        pods = self.running()
        self.seen.forget({pod["metadata"]["name"] for pod in pods})
        moved: list[Moved] = []
        for pod in pods:
            rows, _ = await states(self.client, pod)
            moved += self.seen.states(pod["metadata"]["name"], rows)
            self.seen.restarted(pod)
        for node in {pod["spec"]["nodeName"] for pod in pods}:
            await self._usage(node)
        return moved

    async def _usage(self, node: str) -> None:
        try:
            summary = await self.client.raw("GET", f"/api/v1/nodes/{node}/proxy/stats/summary")
        except (ApiError, Unreachable):
            return
        for pod in summary["pods"]:
            if pod["podRef"]["namespace"] != NAMESPACE:
                continue
            for container in pod["containers"]:
                amounts = {"memory": int(container["memory"]["workingSetBytes"])}
                if "usageNanoCores" in container["cpu"]:
                    amounts["cpu"] = round(container["cpu"]["usageNanoCores"] / 1e6)
                self.seen.used(pod["podRef"]["name"], container["name"], amounts)

    # --- acting
    async def _visit(self) -> None:
        """Resizes the load generator up, down and up again, like a user with kubectl."""
        await asyncio.sleep(FIRST_VISIT_S)
        turn = 0
        while True:
            await self._resize_load(LARGE if turn % 2 == 0 else SMALL)
            turn += 1
            await asyncio.sleep(BETWEEN_VISITS_S)

    async def _resize_load(self, size: Object) -> None:
        for pod in self.running():
            if pod["metadata"]["labels"]["app"] != "load":
                continue
            name = pod["metadata"]["name"]
            patch = {"spec": {"containers": [{"name": "load", "resources": {"requests": size}}]}}
            self.typed.append(f"podfit resize {name} -n {NAMESPACE} --cpu {size['cpu']} --memory {size['memory']}")
            with contextlib.suppress(ApiError):
                await self.client.patch(POD, NAMESPACE, name, patch, "resize", STRATEGIC)
