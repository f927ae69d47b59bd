"""The streaming server: exec, attach and port-forward on an upgraded connection, at a URL for one use."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from podfit.kit.concurrency.tasks import Tasks
from podfit.kit.web.listener import HttpListener, side_listener_limit
from podfit.streaming.channels import V4
from podfit.streaming.ends import ByteStream, ExecStream, StreamFailure
from podfit.streaming.remote import ERROR, RESIZE, STDERR, STDIN, STDOUT, converse, failure_status
from podfit.streaming.tunnels import UPGRADE, SpdyEnd, TunnelForward, upgraded

log = logging.getLogger(__name__)
VALID_S = 60.0
"""The time for which a URL can be opened."""


@dataclass(frozen=True)
class Conversation:
    """An exec or attach session that a client may open."""

    open: Callable[[], Awaitable[ExecStream]]
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool
    attached: bool


Forward = Callable[[int], Awaitable[ByteStream]]


class StreamServer:
    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host, self._port = host, 0
        self._pending: dict[str, Conversation | Forward] = {}
        self._listener: HttpListener | None = None
        self._tasks = Tasks("vm streams")

    async def start(self) -> None:
        self._listener = HttpListener(self._handle, None, limit=side_listener_limit())
        await self._listener.open(self._host, 0)
        self._port = self._listener.port

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._listener is not None:
            await self._listener.close()

    def offer(self, what: Conversation | Forward) -> str:
        """Offers a session; returns a URL for one use."""
        token = secrets.token_urlsafe(16)
        self._pending[token] = what
        asyncio.get_running_loop().call_later(VALID_S, self._pending.pop, token, None)
        kind = "exec" if isinstance(what, Conversation) else "portforward"
        return f"http://{self._host}:{self._port}/{kind}/{token}"

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        what = self._pending.pop(request.path.rpartition("/")[2], None)
        if what is None:
            return web.Response(status=404, text="no such stream, or it was used already")
        if request.headers.get("Upgrade", "").upper() != UPGRADE:
            return web.Response(status=400, text=f"only {UPGRADE} is served here")
        if isinstance(what, Conversation):
            return await self._converse(request, what)
        answer, carrier = await upgraded(request, "portforward.k8s.io")
        await TunnelForward(carrier, what).run()
        return answer

    async def _converse(self, request: web.BaseRequest, what: Conversation) -> web.StreamResponse:
        wanted = {STDOUT} if what.stdout else set()
        if what.stderr and not what.tty:
            wanted.add(STDERR)
        channels = {ERROR, *wanted}
        if what.stdin:
            channels.add(STDIN)
        if what.tty:
            channels.add(RESIZE)
        answer, carrier = await upgraded(request, V4)
        end = SpdyEnd(carrier, frozenset(channels))
        try:
            await end.open()
            try:
                stream = await what.open()
            except StreamFailure as error:
                await end.finish(failure_status(str(error)))
            else:
                await converse(end, stream, frozenset(wanted), what.attached)
        except TimeoutError:
            log.info("the client did not open the streams of an exec")
        finally:
            await end.close()
        return answer
