"""Calls a container runtime over CRI: each call with a deadline, each failure as an exception with the runtime's
message.

The channel reconnects automatically: the next call reaches a restarted runtime within a second.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.message import Message

from .migrations import migration_calls
from .services import IMAGE, OPTIONS, RUNTIME, calls

UNIX = "unix://"
DEADLINE_S = 120.0
DEADLINES_S = {
    "Version": 10.0,
    "Status": 10.0,
    "RuntimeConfig": 10.0,
    "ListPodSandbox": 30.0,
    "ListContainers": 30.0,
    "PodSandboxStatus": 30.0,
    "ContainerStatus": 30.0,
    "ImageStatus": 30.0,
    "RunPodSandbox": 240.0,
    "StopPodSandbox": 240.0,
    "PullImage": 3600.0,
}
"""The kubelet's timeouts: sandboxes wait for networks, pulls for registries."""
_CHANNEL = (
    *OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class CriError(Exception):
    """A failed call. `code` is the gRPC status (NOT_FOUND, UNAVAILABLE, DEADLINE_EXCEEDED …)."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(details)
        self.code, self.details = code, details

    @property
    def unreached(self) -> bool:
        """The runtime is unreachable or does not respond: whether it executed the call is unknown."""
        return self.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")

    @property
    def words(self) -> str:
        """The error in the format of Go's gRPC clients, which users know from kubelets."""
        return f"rpc error: code = {_go_code(self.code)} desc = {self.details}"


class BadEndpoint(ValueError):
    """An endpoint that is not a valid address of a runtime."""


def target(endpoint: str) -> str:
    """The URL or path of a unix socket, or HOST:PORT, in gRPC's format."""
    if endpoint.startswith("/"):
        return UNIX + endpoint
    if endpoint.startswith(UNIX) and endpoint.removeprefix(UNIX).startswith("/"):
        return endpoint
    if endpoint.startswith("tcp://") and ":" in endpoint.removeprefix("tcp://"):
        return endpoint.removeprefix("tcp://")
    raise BadEndpoint(f"{endpoint!r}: must be unix:///path/of/socket or tcp://host:port")


class CriClient:
    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._channel = grpc.aio.insecure_channel(target(endpoint), options=_CHANNEL)
        self._calls = {**calls(self._channel, RUNTIME), **calls(self._channel, IMAGE)}
        self._migrations = migration_calls(self._channel)

    async def ask(self, method: str, request: Message, timeout_s: float | None = None) -> Any:
        """The response to one call of either service; raises CriError."""
        deadline = timeout_s if timeout_s is not None else DEADLINES_S.get(method, DEADLINE_S)
        try:
            return await self._calls[method](request, timeout=deadline)
        except grpc.aio.AioRpcError as error:
            raise CriError(error.code().name, error.details() or "") from error

    async def migrate(self, method: str, timeout_s: float = DEADLINE_S, **message: Any) -> dict[str, Any]:
        """One call of the service that migrates containers between runtimes; raises CriError."""
        try:
            answer: dict[str, Any] = await self._migrations[method](message, timeout=timeout_s)
            return answer
        except grpc.aio.AioRpcError as error:
            raise CriError(error.code().name, error.details() or "") from error

    async def follow(self, method: str, request: Message) -> AsyncIterator[Any]:
        """The messages of a streaming call, for as long as the runtime sends them."""
        try:
            async for message in self._calls[method](request):
                yield message
        except grpc.aio.AioRpcError as error:
            raise CriError(error.code().name, error.details() or "") from error

    async def close(self) -> None:
        await self._channel.close()


def _go_code(code: str) -> str:
    """NOT_FOUND → NotFound; UNKNOWN → Unknown."""
    return "OK" if code == "OK" else "".join(word.capitalize() for word in code.split("_"))
