"""Checks whether a container runtime can run pods, and reports the node as not ready while it cannot.

A runtime that does not answer has half a minute, so that a restart or an upgrade of it moves no pods.
"""

from __future__ import annotations

import logging

from podfit.agent.node.node import NodeKeeper
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.status import ApiError
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

EVERY_S = 5.0
DOWN_AFTER_S = 30.0
DOWN = "container runtime is down"


class RuntimeWatch:
    def __init__(self, runtime: Runtime, node: NodeKeeper, clock: Clock) -> None:
        self._runtime, self._node, self._clock = runtime, node, clock
        self._answered = clock.monotonic()

    async def run(self) -> None:
        while True:
            await self.check()
            await self._clock.sleep(EVERY_S)

    async def check(self) -> None:
        try:
            problem = await self._runtime.problem()
            self._answered = self._clock.monotonic()
        except RuntimeFailure:
            silent = self._clock.monotonic() - self._answered
            problem = DOWN if silent >= DOWN_AFTER_S else self._node.problem
        if problem == self._node.problem:
            return
        log.warning("node %s: %s", self._node.name, problem or "the container runtime is ready")
        self._node.problem = problem
        if self._node.known:
            try:
                await self._node.publish()
            except (ApiError, Unreachable) as error:
                log.info("node %s: %s", self._node.name, error)  # the next status reports it
