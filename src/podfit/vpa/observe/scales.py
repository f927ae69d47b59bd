"""Reads the scale subresource of custom controllers, for the selector of their pods.

Results are cached, and the synchronous reader never waits. `refresh` fetches missing or old results between passes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import NamedTuple

from podfit.api.registry.kinds import Kind
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.discovery import discover
from podfit.client.transport import Unreachable
from podfit.kit.clock import Clock

log = logging.getLogger(__name__)

FRESH_S, FAILED_FRESH_S, KEEP_S, DISCOVERY_S = 600.0, 30.0, 3600.0, 300.0
AT_ONCE = 8
NO_RESOURCE = "the server could not find the requested resource"


class Scalable(NamedTuple):
    namespace: str
    api_version: str
    kind: str
    name: str


@dataclass(slots=True)
class Scale:
    selector: LabelSelector | None
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
        """Set while a requested scale is unknown."""

    def check(self, what: Scalable) -> Scale | None:
        """The cached scale. If it is missing, the next `refresh` fetches it."""
        scale = self._known.get(what)
        if scale is None:
            self._known[what] = None
            self.wanted.set()
            return None
        scale.used = self._clock.monotonic()
        return scale

    async def refresh(self) -> None:
        """Fetches requested scales that are missing or old; drops those no longer requested."""
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

    async def _ask(self, what: Scalable) -> tuple[LabelSelector | None, str]:
        """The selector, or the reason why there is none in upstream's words; neither if the server could not be
        reached."""
        if what.api_version.count("/") > 1:
            return None, f"unexpected GroupVersion string: {what.api_version}"
        try:
            return LabelSelector.parse(await self._text(what)), ""
        except Unreachable as error:
            log.info("scale of %s %s/%s: %s", what.kind, what.namespace, what.name, error)
            return None, ""
        except (ApiError, ValueError) as error:
            where = f"{what.api_version} / {what.kind} / {what.name}"
            return None, f"unhandled targetRef {where}, last error {error}"

    async def _text(self, what: Scalable) -> str:
        """Fetches the selector from the scale, as text. Raises ApiError, Unreachable, and ValueError if there
        is none."""
        kind = await self._kind(what)
        if kind is None:
            raise ValueError(f'no matches for kind "{what.kind}" in group "{_group(what)}"')
        try:
            scale = await self._client.get(kind, what.namespace, what.name, "scale")
        except ApiError as error:
            if error.code == 404 and not error.reason:
                # A server that does not know the path responds with plain text.
                raise ValueError(f"{NO_RESOURCE} (get {kind.plural} {what.name})") from error
            raise
        text = (scale.get("status") or {}).get("selector") or ""
        if not text:
            raise ValueError(f"resource {what.namespace}/{what.name} has an empty selector for scale sub-resource")
        return str(text)

    async def _kind(self, what: Scalable) -> Kind | None:
        named = (_group(what), what.kind)
        if self._clock.monotonic() - self._discovered > DISCOVERY_S or named not in self._kinds:
            self._kinds = {(kind.group, kind.kind): kind for kind in await discover(self._client)}
            self._discovered = self._clock.monotonic()
        return self._kinds.get(named)


def _group(what: Scalable) -> str:
    return what.api_version.rpartition("/")[0]
