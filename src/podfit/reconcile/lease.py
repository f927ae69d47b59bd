"""Leader election with a coordination.k8s.io Lease: the holder works, the other replicas wait.

The holder renews the Lease; others take it over only after it was not renewed for its duration *as they observed it*,
so the clocks of different machines need not agree.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from podfit.api.objects import Object
from podfit.api.registry.kinds import LEASE
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, RealClock, rfc3339_micro

log = logging.getLogger(__name__)


class Leadership:
    def __init__(
        self,
        client: Client,
        name: str,
        identity: str,
        *,
        namespace: str = "kube-system",
        duration_s: float = 15.0,
        renew_s: float = 10.0,
        retry_s: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        self._client, self._name, self._identity, self._namespace = client, name, identity, namespace
        self._duration_s, self._renew_s, self._retry_s = duration_s, renew_s, retry_s
        self._clock = clock or RealClock()
        self._seen: tuple[str, float] = ("", 0.0)
        self._lease: Object | None = None

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Runs `work` whenever this process is the leader, and cancels it when it no longer is. Raises its errors."""
        while True:
            await self._win()
            log.info("%s leads %s", self._identity, self._name)
            task = asyncio.ensure_future(work())
            try:
                await self._keep_renewing(task)
            finally:
                task.cancel()
                [ended] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended, Exception):
                raise ended
            log.warning("%s no longer leads %s", self._identity, self._name)

    async def _win(self) -> None:
        level = logging.WARNING
        while True:
            try:
                if await self._try():
                    return
                level = logging.WARNING
            except (ApiError, Unreachable) as error:
                raced = isinstance(error, ApiError) and error.code == 409
                log.log(logging.DEBUG if raced else level, "lease %s/%s: %s", self._namespace, self._name, error)
                # Log the cause once.
                level = logging.DEBUG
            await self._clock.sleep(self._retry_s)

    async def _keep_renewing(self, task: asyncio.Future[None]) -> None:
        last = self._clock.monotonic()
        while not task.done():
            await self._clock.sleep(self._retry_s)
            try:
                # A request that hangs must not outlive the lease: by then another process leads.
                async with asyncio.timeout(max(0.0, last + self._renew_s - self._clock.monotonic())):
                    if not await self._try():
                        return
                last = self._clock.monotonic()
            except (ApiError, Unreachable, TimeoutError) as error:
                log.debug("lease %s: %s", self._name, error)
                if self._clock.monotonic() - last >= self._renew_s or isinstance(error, TimeoutError):
                    return

    async def _try(self) -> bool:
        """Acquires or renews the lease if this process may."""
        lease = await self._client.find(LEASE, self._namespace, self._name)
        now = rfc3339_micro(self._clock.now())
        if lease is None:
            meta = {"name": self._name, "namespace": self._namespace}
            spec = self._spec(now, now, 0)
            await self._client.create(
                LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
            )
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self._identity and not self._stale(lease):
            return False
        changes = int(spec.get("leaseTransitions") or 0)
        if holder == self._identity:
            lease["spec"] = self._spec(spec.get("acquireTime") or now, now, changes)
        else:
            lease["spec"] = self._spec(now, now, changes + 1)
        await self._client.update(LEASE, lease)
        return True

    def _stale(self, lease: Object) -> bool:
        version = lease["metadata"].get("resourceVersion", "")
        if version != self._seen[0]:
            self._seen = (version, self._clock.monotonic())
            return False
        return self._clock.monotonic() - self._seen[1] > self._duration_s

    def _spec(self, acquired: str, renewed: str, changes: int) -> Object:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._duration_s),
            "acquireTime": acquired,
            "renewTime": renewed,
            "leaseTransitions": changes,
        }

    async def release(self) -> None:
        """Releases the lease on a clean stop, so that another process need not wait for it to expire."""
        lease = await self._client.find(LEASE, self._namespace, self._name)
        if lease is not None and (lease.get("spec") or {}).get("holderIdentity") == self._identity:
            lease["spec"]["holderIdentity"] = ""
            lease["spec"]["leaseDurationSeconds"] = 1
            await self._client.update(LEASE, lease)
