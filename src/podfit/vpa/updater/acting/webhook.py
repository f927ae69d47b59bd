"""Checks whether the admission webhook works. Without it an evicted pod would be recreated with its old size, and
evicted again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from podfit.api.registry.kinds import LEASE
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock, parse_rfc3339
from podfit.vpa.model.changing.notes import FITTED
from podfit.vpa.model.changing.waits import Wait
from podfit.vpa.model.objects.pods import annotations_of
from podfit.vpa.serve.probe import registered, silence
from podfit.vpa.updater.config import UpdaterConfig
from podfit.vpa.updater.decide.priority import OBSERVED

log = logging.getLogger(__name__)

UNSIZED_S = 300.0
"""How long nothing is evicted after a successor bypassed the webhook."""
UNSIZED = "an evicted pod would be recreated with the size of its template"


class Webhook:
    def __init__(self, client: Client, config: UpdaterConfig, clock: Clock) -> None:
        self._client, self._config, self._clock = client, config, clock
        self._missed: tuple[str, float] | None = None
        """The successor that bypassed the webhook, and when it was observed."""

    def came(self, pod: Mapping[str, Any]) -> None:
        """Records whether the successor of an evicted pod passed the webhook, which leaves an annotation on
        every pod."""
        notes = annotations_of(pod)
        seen = OBSERVED in notes or FITTED in notes
        self._missed = None if seen else (pod["metadata"]["name"], self._clock.monotonic())

    async def unavailable(self) -> Wait | None:
        """Why nothing must be evicted now; None if evictions are safe."""
        if not self._config.use_admission_controller_status:
            return None
        words = await self._silent_lease() or await self._silent_url() or self._passed_by()
        return Wait("NoAdmission", f"{words}: {UNSIZED}") if words else None

    async def _silent_lease(self) -> str:
        config = self._config
        where = config.admission_controller_status_lease_namespace, config.admission_controller_status_lease_name
        try:
            lease = await self._client.find(LEASE, *where)
        except (ApiError, Unreachable) as error:
            log.warning("the admission controller's lease: %s", error)
            return f"the webhook's Lease {'/'.join(where)} cannot be read ({error})"
        if lease is None:
            return f"the webhook is not running: there is no Lease {'/'.join(where)}"
        stamps = ((lease.get("spec") or {}).get("renewTime"), lease["metadata"].get("creationTimestamp"))
        age = self._clock.now() - max(parse_rfc3339(stamp) for stamp in stamps if stamp)
        most = config.admission_controller_status_timeout
        if age < most:
            return ""
        return f"the webhook renewed its Lease {'/'.join(where)} {age:.0f} s ago, at most {most:g} s are allowed"

    async def _silent_url(self) -> str:
        """Why the registered webhook does not respond; empty if it does. The Lease alone is not enough, because any of
        several webhooks renews it."""
        try:
            url, authority = await registered(self._client)
        except (ApiError, Unreachable) as error:
            log.info("where the webhook is registered: %s", error)
            return ""
        why = await silence(url, authority) if url else ""
        return f"the webhook registered at {url} does not answer ({why})" if why else ""

    def _passed_by(self) -> str:
        if self._missed is None:
            return ""
        name, at = self._missed
        left = UNSIZED_S - (self._clock.monotonic() - at)
        if left <= 0:
            self._missed = None
            return ""
        return (
            f"pod {name}, successor of an evicted pod, did not pass the webhook, and no "
            f"eviction is attempted for {left:.0f} s"
        )
