"""Counts and times the agent's runtime calls, under the kubelet's names (kubelet_runtime_operations_*).

Components of the agent use the `Runtime` built here, which forwards every call. Reading a pod's state, usage and limits
is not counted, because every pass does it, mostly from a cache.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from podfit.agent.metrics import AgentMetrics
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import LimitsChange, RuntimeFailure
from podfit.kit.clock import Clock

NAMES = {
    "run_pod": "run_podsandbox",
    "stop_pod": "stop_podsandbox",
    "remove_pod": "remove_podsandbox",
    "pods": "list_podsandbox",
    "create_container": "create_container",
    "start_container": "start_container",
    "stop_container": "stop_container",
    "remove_container": "remove_container",
    "update_container": "update_container",
    "update_pod": "update_podsandbox_resources",
    "exec": "exec",
    "attach": "attach",
    "connect": "port_forward",
    "image_status": "image_status",
    "pull_image": "pull_image",
    "images": "list_images",
    "remove_image": "remove_image",
}
"""The runtime's methods, and the kubelet's names for them."""
EXEC_SYNC = "exec_sync"


class Calls:
    def __init__(self, runtime: Runtime, metrics: AgentMetrics, clock: Clock) -> None:
        self._runtime, self._metrics, self._clock = runtime, metrics, clock

    def counted(self) -> Runtime:
        """Wraps the runtime so that calls are counted."""
        methods = {name: self._timed(name, word) for name, word in NAMES.items()}
        return cast(Runtime, _View(self._runtime, {**methods, "update_all": self._update_all}))

    def commands(self) -> Runtime:
        """Wraps the runtime for hooks and probes, which await the result of each command, so that commands are
        counted."""
        return cast(Runtime, _View(self._runtime, {"exec_sync": self._timed("exec_sync", EXEC_SYNC)}))

    def _timed(self, name: str, operation: str) -> Callable[..., Awaitable[Any]]:
        runtime, now, done, failed = self._runtime, self._clock.monotonic, self._done, self._metrics.operation_errors

        async def timed(*given: Any, **named: Any) -> Any:
            began = now()
            try:
                return await getattr(runtime, name)(*given, **named)
            except (RuntimeFailure, OSError):
                failed.labels(operation).inc()
                raise
            finally:
                done(operation, began)

        return timed

    async def _update_all(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        """An update of each container, timed until it is applied in the kernel."""
        began = self._clock.monotonic()
        done = await self._runtime.update_all(uid, changes)
        for _ in {target for target, _ in changes if target} if done else ():
            self._done(NAMES["update_container"], began)
        return done

    def _done(self, operation: str, began: float) -> None:
        self._metrics.operations.labels(operation).inc()
        self._metrics.operation_seconds.labels(operation).observe(self._clock.monotonic() - began)


class _View:
    """An object with some of its methods replaced."""

    def __init__(self, of: object, methods: dict[str, Callable[..., Awaitable[Any]]]) -> None:
        self.__dict__.update(methods)
        self._of = of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)
