"""Runs lifecycle hooks: a command in the container, an HTTP request to the pod, or a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from podfit.agent.pods.events import WARNING, Events
from podfit.agent.pods.record import PodRecord
from podfit.agent.probes.commands import run
from podfit.agent.probes.web import LIFECYCLE_AGENT, NoAnswer, get_status, port_number
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object
from podfit.api.status import go_quote
from podfit.kit.clock import Clock

_TIMEOUT_S = 30.0


class Hooks:
    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self._runtime, self._clock = runtime, clock

    async def run(
        self, record: PodRecord, container: Object, hook: Mapping[str, Any], container_id: str, timeout_s: float = 0.0
    ) -> str:
        """Runs the hook and returns its error; "" if it succeeded."""
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
        whose = f'for Container "{container["name"]}" in Pod "{record.who}" failed - error'
        if hook.get("exec"):
            command = list(hook["exec"].get("command") or [])
            failed = await self._command(command, container_id)
            return failed and f"Exec lifecycle hook ([{' '.join(command)}]) {whose}: {failed}"
        if hook.get("httpGet"):
            failed = await self._ask(record, container, hook["httpGet"])
            return failed and f"HTTP lifecycle hook ({hook['httpGet'].get('path') or ''}) {whose}: {failed}"
        if hook.get("sleep"):
            await self._clock.sleep(float(hook["sleep"].get("seconds") or 0))
        return ""

    async def _command(self, command: list[str], container_id: str) -> str:
        output, errors = "", ""
        try:
            code, output, errors = await run(self._runtime, container_id, command)
            failed = f"command '{' '.join(command)}' exited with {code}: {errors}" if code else ""
        except (RuntimeFailure, OSError) as error:
            failed = str(error)
        return failed and f"{failed}, message: {go_quote(output + errors)}"

    async def _ask(self, record: PodRecord, container: Object, ask: Mapping[str, Any]) -> str:
        """Sends the HTTP request. Any response is a success, whatever its status: the hook fails only if the server
        cannot be reached."""
        ips = record.state.ips if record.state is not None else ()
        host = ask.get("host") or (ips[0] if ips else "127.0.0.1")
        try:
            await get_status(ask, host, port_number(ask.get("port"), container), _TIMEOUT_S, LIFECYCLE_AGENT)
        except (NoAnswer, ValueError) as error:
            return str(error)
        return ""


def report_failure(events: Events, record: PodRecord, reason: str, container: str, error: str) -> None:
    """The Event does not give the cause: a hook's output may contain secrets. The pod's story, which the node's server
    shows, does."""
    events.emit(record.pod, WARNING, reason, f"{reason.removeprefix('Failed')} failed", container)
    record.story.add("hook failed", error, container=container, event=reason)
