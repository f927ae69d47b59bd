"""Lifecycle hooks: a command in the container, an HTTP request to the pod, or a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from podfit.agent.decide.states import Object
from podfit.agent.life.web import LIFECYCLE_AGENT, http_get, port_number
from podfit.agent.notices import WARNING, Notices
from podfit.agent.record import PodRecord
from podfit.agent.runtimes.base import ExecStream, Runtime, RuntimeFailure
from podfit.kit.clock import Clock

_MOST_OUTPUT = 10 * 1024


class Hooks:
    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self._runtime, self._clock = runtime, clock

    async def run(
        self, record: PodRecord, container: Object, hook: Mapping[str, Any], container_id: str, timeout_s: float = 0.0
    ) -> str:
        """What went wrong, "" when nothing did."""
        work = asyncio.ensure_future(self._do(record, container, hook, container_id))
        if timeout_s <= 0:
            return await work
        limit = asyncio.ensure_future(self._clock.sleep(timeout_s))
        try:
            await asyncio.wait({work, limit}, return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else f"hook did not end within {timeout_s:g}s"
        finally:
            limit.cancel()
            work.cancel()

    async def _do(self, record: PodRecord, container: Object, hook: Mapping[str, Any], container_id: str) -> str:
        try:
            if hook.get("exec"):
                code, output = await run_command(self._runtime, container_id, hook["exec"].get("command") or [])
                return "" if code == 0 else f"command exited with {code}: {output.strip()}"
            if hook.get("httpGet"):
                ask = hook["httpGet"]
                ips = record.state.ips if record.state is not None else ()
                host = ask.get("host") or (ips[0] if ips else "127.0.0.1")
                port = port_number(ask.get("port"), container)
                status = await http_get(ask, host, port, 30.0, LIFECYCLE_AGENT)
                return "" if status < 400 else f"HTTP status {status}"
            if hook.get("sleep"):
                await self._clock.sleep(float(hook["sleep"].get("seconds") or 0))
        except (RuntimeFailure, OSError, TimeoutError, ValueError) as error:
            return str(error) or type(error).__name__
        return ""


def tell_failure(notices: Notices, record: PodRecord, reason: str, container: str, error: str) -> None:
    """The Event does not say why: a hook's output may hold secrets. The story does, which the node's server tells."""
    notices.say(record.pod, WARNING, reason, f"{reason.removeprefix('Failed')} failed", container)
    record.story.tell("hook failed", error, container=container, event=reason)


async def run_command(runtime: Runtime, container_id: str, command: list[str]) -> tuple[int, str]:
    """Exit code and the beginning of the output of a command in a container."""
    stream = await runtime.exec(container_id, list(command))
    try:
        output = await _collect(stream)
        return await stream.wait(), output
    finally:
        await stream.close()


async def _collect(stream: ExecStream) -> str:
    kept = b""
    while (piece := await stream.read()) is not None:
        if len(kept) < _MOST_OUTPUT:
            kept += piece[1][: _MOST_OUTPUT - len(kept)]
    return kept.decode("utf-8", "replace")
