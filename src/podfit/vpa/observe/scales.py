"""Controllers of kinds nobody knows beforehand: what their scale subresource says about the pods they select.

Answers are kept; the synchronous reader never waits. `refresh` fetches what is missing or old, between passes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import NamedTuple

from podfit.api.kinds import Kind
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.discovery import discover
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock
from podfit.vpa.model.selectors import Selector, parse

log = logging.getLogger(__name__)

FRESH_S, FAILED_FRESH_S, KEEP_S, DISCOVERY_S = 600.0, 30.0, 3600.0, 300.0
AT_ONCE = 8


class Scalable(NamedTuple):
    namespace: str
    api_version: str
    kind: str
    name: str


@dataclass(slots=True)
class Scale:
    selector: Selector | None
    problem: str
    fetched: float
    used: float


class Scales:
    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._known: dict[Scalable, Scale | None] = {}
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._discovered = float("-inf")
        self.wanted = asyncio.Event()
        """Set while somebody asked for what is not known."""

    def look(self, what: Scalable) -> Scale | None:
        """What is known now; asking makes `refresh` fetch it."""
        scale = self._known.get(what)
        if scale is None:
            self._known[what] = None
            self.wanted.set()
            return None
        scale.used = self._clock.monotonic()
        return scale

    async def refresh(self) -> None:
        """Fetches what was asked for and is missing or old; forgets what nobody asks for any more."""
        self.wanted.clear()
        now = self._clock.monotonic()
        due = []
        for what, scale in list(self._known.items()):
            if scale is None:
                due.append(what)
            elif now - scale.used > KEEP_S:
                del self._known[what]
            elif now - scale.fetched > (FRESH_S if scale.selector else FAILED_FRESH_S):
                due.append(what)
        if due:
            gate = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(self._fetch(what, gate) for what in due))

    async def _fetch(self, what: Scalable, gate: asyncio.Semaphore) -> None:
        async with gate:
            selector, problem = await self._ask(what)
        now = self._clock.monotonic()
        before = self._known.get(what)
        if selector is None and before is not None and before.selector is not None and not problem:
            selector = before.selector
        self._known[what] = Scale(selector, problem, now, before.used if before else now)

    async def _ask(self, what: Scalable) -> tuple[Selector | None, str]:
        """The selector, or why there is none; neither when the server could not be asked."""
        where = f"{what.kind} {what.namespace}/{what.name}"
        try:
            kind = await self._kind(what)
            if kind is None:
                return None, f"unhandled targetRef {what.api_version} / {what.kind} / {what.name}"
            scale = await self._client.get(kind, what.namespace, what.name, "scale")
        except ApiError as error:
            return None, f"{where}: {error}"
        except Unreachable as error:
            log.info("scale of %s: %s", where, error)
            return None, ""
        text = (scale.get("status") or {}).get("selector") or ""
        if not text:
            return None, f"Resource {what.namespace}/{what.name} has an empty selector for scale sub-resource"
        try:
            return parse(text), ""
        except ValueError as error:
            return None, f"{where}: {error}"

    async def _kind(self, what: Scalable) -> Kind | None:
        group = what.api_version.rpartition("/")[0]
        if self._clock.monotonic() - self._discovered > DISCOVERY_S or (group, what.kind) not in self._kinds:
            found = await discover(self._client)
            self._kinds = {(kind.group, kind.kind): kind for kind in found if kind.subresource("scale")}
            self._discovered = self._clock.monotonic()
        return self._kinds.get((group, what.kind))
