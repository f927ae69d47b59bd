"""The etcd store's protocol: the channel, the few requests it makes, and the translation of errors.

The only module that uses gRPC. It holds no state of the store; `etcd` interprets the responses. Messages come from the
`aetcd` package, whose own client lacks reads at a revision and resumable watches, so its stubs are used.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podfit.store.backend import Compacted, Unavailable, Unusable

try:
    import grpc
    from aetcd import rpc
except ImportError:  # the optional dependency is not installed
    grpc = rpc = None

# Without a limit on message sizes, because a watch may return many large objects; a long back-off would prolong a short
# outage.
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


@dataclass(frozen=True, slots=True)
class Tls:
    ca: Path
    cert: Path | None = None
    key: Path | None = None


class EtcdWire:
    def __init__(self, endpoints: Sequence[str], timeout_s: float, tls: Tls | None) -> None:
        if rpc is None:
            raise Unusable("the etcd store needs the packages aetcd and grpcio: pip install 'podfit[etcd]'")
        self._endpoints = [endpoint.split("://")[-1].rstrip("/") for endpoint in endpoints]
        self._timeout_s, self._tls = timeout_s, tls
        self._channel: Any = None

    async def connect(self) -> None:
        target = await self._target()
        options = [*OPTIONS, ("grpc.default_authority", self._endpoints[0])]
        if self._tls is None:
            self._channel = grpc.aio.insecure_channel(target, options=options)
        else:
            self._channel = grpc.aio.secure_channel(target, self._credentials(self._tls), options=options)
        self._kv = rpc.KVStub(self._channel)
        self._leases = rpc.LeaseStub(self._channel)
        self._watches = rpc.WatchStub(self._channel)

    async def close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close(grace=None)

    async def page(self, start: bytes, end: bytes, revision: int, limit: int) -> Any:
        """Keys from `start` up to `end` at `revision` (0: now)."""
        return await self._call(
            "Range", rpc.RangeRequest(key=start, range_end=end, revision=revision, limit=limit), self._kv
        )

    async def revision(self) -> int:
        """The newest revision that the cluster has committed; a linearizable read."""
        answer = await self._call("Range", rpc.RangeRequest(key=b"\0", count_only=True), self._kv)
        return int(answer.header.revision)

    async def put(self, key: bytes, value: bytes, expect: int | None, lease: int) -> Any:
        change = rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value, lease=lease, prev_kv=True))
        compare = [] if expect is None else [self._is_at(key, expect)]
        return await self._decide(key, compare, change)

    async def delete(self, key: bytes, expect: int | None) -> Any:
        change = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key, prev_kv=True))
        exists = rpc.Compare(result=rpc.Compare.GREATER, target=rpc.Compare.CREATE, key=key, create_revision=0)
        compare = [exists] if expect is None else [exists, self._is_at(key, expect)]
        return await self._decide(key, compare, change)

    async def grant(self, ttl_s: int) -> int:
        return int((await self._call("LeaseGrant", rpc.LeaseGrantRequest(TTL=ttl_s), self._leases)).ID)

    async def revoke(self, lease: int) -> None:
        await self._call("LeaseRevoke", rpc.LeaseRevokeRequest(ID=lease), self._leases)

    async def compact(self, revision: int) -> None:
        await self._call("Compact", rpc.CompactionRequest(revision=revision), self._kv)

    async def watch(self, start: bytes, end: bytes, revision: int) -> AsyncGenerator[list[Any], None]:
        """The events from `revision` on, grouped as etcd sends them; raises Compacted if they are gone."""
        call = self._watches.Watch()
        create = rpc.WatchCreateRequest(key=start, range_end=end, start_revision=revision)
        try:
            await call.write(rpc.WatchRequest(create_request=create))
            async for answer in call:
                if answer.compact_revision:
                    raise Compacted(int(answer.compact_revision))
                if answer.canceled:
                    raise Unavailable(f"etcd ended the watch: {answer.cancel_reason}")
                yield list(answer.events)
        except grpc.aio.AioRpcError as error:
            raise self._explain(error) from error
        finally:
            call.cancel()

    @staticmethod
    def is_deletion(event: Any) -> bool:
        return bool(event.type == rpc.Event.DELETE)

    @staticmethod
    def _is_at(key: bytes, revision: int) -> Any:
        # etcd compares a missing key as if it were at revision 0.
        return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=key, mod_revision=revision)

    async def _decide(self, key: bytes, compare: list[Any], change: Any) -> Any:
        look = rpc.RequestOp(request_range=rpc.RangeRequest(key=key))
        return await self._call("Txn", rpc.TxnRequest(compare=compare, success=[change], failure=[look]), self._kv)

    async def _call(self, method: str, request: Any, stub: Any) -> Any:
        if self._channel is None:
            raise Unavailable("the store is closed")
        try:
            return await getattr(stub, method)(request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            raise self._explain(error) from error

    def _explain(self, error: Any) -> Compacted | Unavailable:
        if error.code() == grpc.StatusCode.OUT_OF_RANGE and "compacted" in (error.details() or ""):
            return Compacted(0)
        return Unavailable(f"etcd at {', '.join(self._endpoints)}: {error.details() or error.code().name}")

    async def _target(self) -> str:
        """One gRPC target for all members: gRPC switches to the next address itself if one is unreachable."""
        if len(self._endpoints) == 1:
            return self._endpoints[0]
        addresses = []
        for endpoint in self._endpoints:
            host, _, port = endpoint.rpartition(":")
            try:
                found = await asyncio.get_running_loop().getaddrinfo(
                    host.strip("[]"), int(port), type=socket.SOCK_STREAM
                )
            except (OSError, ValueError):
                continue
            addresses += [where[4] for where in found if where[0] == socket.AF_INET]
        if not addresses:
            raise Unavailable(f"none of the etcd endpoints {', '.join(self._endpoints)} has an IPv4 address")
        return "ipv4:" + ",".join(dict.fromkeys(f"{address[0]}:{address[1]}" for address in addresses))

    @staticmethod
    def _credentials(tls: Tls) -> Any:
        try:
            parts = [path.read_bytes() if path else None for path in (tls.ca, tls.key, tls.cert)]
        except OSError as error:
            raise Unusable(f"cannot read the etcd certificate {error.filename}: {error.strerror}") from error
        return grpc.ssl_channel_credentials(*parts)
