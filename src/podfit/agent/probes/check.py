"""Performs one probe of a container: a command, an HTTP GET, a connection, the gRPC health protocol.

The result is None on success, else the failure, worded as in a kubelet's Events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from podfit.agent.probes import grpc_health as grpchealth
from podfit.agent.probes.commands import run_command
from podfit.agent.probes.web import NoAnswer, get_status, port_number, reason
from podfit.agent.runtimes.base import Runtime
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object
from podfit.api.status import go_quote
from podfit.kit.web.addresses import bracketed


async def check(
    runtime: Runtime, container: Object, probe: Mapping[str, Any], container_id: str, ip: str
) -> str | None:
    timeout = float(probe.get("timeoutSeconds") or 1)
    if probe.get("exec"):
        return await _command(runtime, container_id, probe["exec"].get("command") or [], timeout)
    try:
        return await _ask(container, probe, ip, timeout)
    except ValueError as error:
        return str(error)


async def _command(runtime: Runtime, container_id: str, command: list[str], timeout_s: float) -> str | None:
    try:
        async with asyncio.timeout(timeout_s):
            code, output = await run_command(runtime, container_id, command)
    except TimeoutError:
        return f"command timed out: {go_quote(' '.join(command))} timed out after {grpchealth.go_seconds(timeout_s)}"
    except (RuntimeFailure, OSError) as error:
        return str(error)
    return None if code == 0 else output


async def _ask(container: Object, probe: Mapping[str, Any], ip: str, timeout_s: float) -> str | None:
    if grpc := probe.get("grpc"):
        return await grpchealth.check(ip, int(grpc["port"]), grpc.get("service") or "", timeout_s)
    ask = probe.get("httpGet") or probe.get("tcpSocket") or {}
    host, port = ask.get("host") or ip, port_number(ask.get("port"), container)
    address = f"{bracketed(host)}:{port}"
    if probe.get("httpGet"):
        return await _get(ask, host, port, timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return f"dial tcp {address}: i/o timeout"
    except OSError as error:
        return f"dial tcp {address}: connect: {reason(error)}"
    writer.close()
    return None


async def _get(ask: Mapping[str, Any], host: str, port: int, timeout_s: float) -> str | None:
    try:
        status = await get_status(ask, host, port, timeout_s)
    except NoAnswer as error:
        return str(error)
    return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"
