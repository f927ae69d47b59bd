"""Makes one call of the gRPC health protocol, grpc.health.v1.Health/Check, for a probe.

Both messages have one field, so they are encoded and decoded by hand. grpcio is loaded with the first gRPC probe; if it
is not installed, the probe fails with a message that says so.
"""

from __future__ import annotations

import asyncio
from typing import Any

from podfit.kit.web.addresses import bracketed

METHOD = "/grpc.health.v1.Health/Check"
AGENT = "kube-probe/1.36"
SERVING = 1
_NAMES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_MISSING = "grpcio is not installed on this node: pip install 'podfit[grpc]'"


async def check(host: str, port: int, service: str, timeout_s: float) -> str | None:
    """Performs the check. None if the service is serving, else the failure in the kubelet's words."""
    try:
        import grpc
    except ImportError:
        return f"error: health rpc probe failed: {_MISSING}"
    address = f"{bracketed(host)}:{port}"
    options = [("grpc.primary_user_agent", AGENT), ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    limit = go_seconds(timeout_s)
    began = asyncio.get_running_loop().time()
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        try:
            async with asyncio.timeout(timeout_s):
                await channel.channel_ready()
        except TimeoutError:
            return f'timeout: failed to connect service "{address}" within {limit}: context deadline exceeded'
        left = max(0.001, timeout_s - (asyncio.get_running_loop().time() - began))
        try:
            answer = await channel.unary_unary(METHOD)(_request(service), timeout=left)
        except grpc.aio.AioRpcError as error:
            return _refused(grpc, error, limit)
    status = _status(answer)
    return None if status == SERVING else f'service unhealthy (responded with "{_NAMES.get(status, status)}")'


def _refused(grpc: Any, error: Any, limit: str) -> str:
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        what = "this server does not implement the grpc health protocol (grpc.health.v1.Health)"
        return f"error: {what}: {error.details()}"
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"timeout: health rpc did not complete within {limit}"
    code = "".join(word.capitalize() for word in error.code().name.split("_"))
    return f"error: health rpc probe failed: rpc error: code = {code} desc = {error.details()}"


def _request(service: str) -> bytes:
    """HealthCheckRequest: field 1 is the service's name, omitted if it is empty."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def _status(answer: bytes) -> int:
    """HealthCheckResponse: field 1 is the status, 0 if it is absent. Unknown fields are skipped."""
    at, status = 0, 0
    while at < len(answer):
        tag, at = _read_varint(answer, at)
        if tag & 7 == 0:
            value, at = _read_varint(answer, at)
            status = value if tag >> 3 == 1 else status
        elif tag & 7 == 2:
            length, at = _read_varint(answer, at)
            at += length
        else:
            at += {1: 8, 5: 4}.get(tag & 7, len(answer))
    return status


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data):
        byte, at = data[at], at + 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number, at


def go_seconds(seconds: float) -> str:
    """Whole seconds as Go prints a duration: 5s, 1m30s, 1h0m0s."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"
