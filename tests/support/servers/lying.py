"""A fake Prometheus with fault injection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from podfit.kit.clock import FakeClock

NOW = 1_800_000_000.0
SERIES = {"namespace": "default", "pod": "web-1-0", "container": "main"}
Answer = Callable[[dict[str, str], dict[str, Any]], web.StreamResponse | None]


class Lying:
    """Answers every query with one container that uses 0.5 cores and 300 MB, unless `fault` returns another
    response."""

    def __init__(self) -> None:
        self.fault: Answer = lambda asked, answer: None
        self.ranges = 0
        self.tail: dict[str, Any] = {}
        self.delay_s = 0.0
        self.containers = [SERIES]

    async def query(self, request: web.Request) -> web.StreamResponse:
        asked = dict(await request.post())
        text = str(asked["query"])
        value = "120" if "count_over_time" in text else "1"
        known = "kube_" not in text and "cfs" not in text and ":" not in text.split("{")[0]
        result = [{"metric": {}, "value": [float(str(asked["time"])), value]}] if known else []
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    async def range(self, request: web.Request) -> web.StreamResponse:
        asked = {name: str(value) for name, value in (await request.post()).items()}
        self.ranges += 1
        await asyncio.sleep(self.delay_s)
        start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
        value = "0.5" if "cpu_usage" in asked["query"] else "3e+08"
        points = [[start + at * step, value] for at in range(int((end - start) // step) + 1)]
        series = (
            []
            if "oom" in asked["query"]
            else [{"metric": container, "values": points} for container in self.containers]
        )
        answer = {"status": "success", "data": {"resultType": "matrix", "result": series}, **self.tail}
        return self.fault(asked, answer) or web.Response(
            text=json.dumps(answer, separators=(",", ":")), content_type="application/json"
        )


@asynccontextmanager
async def serving(lying: Lying) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/api/v1/query", lying.query)
    app.router.add_post("/api/v1/query_range", lying.range)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


class Impatient(FakeClock):
    """A clock whose sleeps return at once."""

    async def sleep(self, seconds: float) -> None:
        return
