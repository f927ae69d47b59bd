"""The agent's additions to the runtime's network: redirects to addresses of the node, and the range of pod
addresses."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from podfit.agent.runtimes.cri.state.records import Pod
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.cri import CriClient, CriError
from podfit.cri import api_pb2 as api
from podfit.kit.concurrency.tasks import Tasks
from podfit.podnet.failures import NetworkFailure
from podfit.podnet.kernel.redirects import Redirects

log = logging.getLogger(__name__)


class Network:
    def __init__(self, client: CriClient, redirects: Redirects) -> None:
        self._client, self._redirects, self._range = client, redirects, ""
        self._tasks = Tasks("cri-network")
        self.pods: Mapping[str, Pod] = {}
        """The pods of the node, once the runtime is open."""

    async def close(self) -> None:
        await self._tasks.stop()

    async def follow(self, uid: str) -> None:
        """Sets up the redirects for a pod with its own network."""
        pod = self.pods.get(uid)
        if pod is not None and not pod.config.host_network:
            await self._redirects.follow(pod.ips)

    async def redirect(self, address: str, port: int, target: str, target_port: int) -> None:
        """Sets up one redirect. The network belongs to the runtime and CNI: only this redirect is ours."""
        try:
            await self._redirects.redirect(address, port, target, target_port)
        except NetworkFailure as error:
            raise RuntimeFailure(f"{address}:{port} cannot be redirected to {target}:{target_port}: {error}") from error
        for uid in list(self.pods):
            await self.follow(uid)

    def use_range(self, pod_range: str) -> None:
        if pod_range and pod_range != self._range:
            self._range = pod_range
            self._tasks.start(self._announce(pod_range), "cri-range")

    async def _announce(self, pod_range: str) -> None:
        """Sends the range to runtimes that write CNI's configuration from a template; others ignore it."""
        config = api.RuntimeConfig(network_config=api.NetworkConfig(pod_cidr=pod_range))
        try:
            await self._client.ask("UpdateRuntimeConfig", api.UpdateRuntimeConfigRequest(runtime_config=config))
        except CriError as error:
            log.info("the runtime did not accept the pod CIDR %s: %s", pod_range, error)
