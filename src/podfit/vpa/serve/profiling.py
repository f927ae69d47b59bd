"""Adds `--profiling` to a component's HTTP server: CPU profiles, and the stacks of its tasks.

The paths are Go's, the contents Python's: a table of functions instead of a binary profile.
"""

from __future__ import annotations

import asyncio
import cProfile
import io
import pstats
import sys

from aiohttp import web

from podfit.kit.clock import Clock
from podfit.kit.web.routes import Info
from podfit.vpa.serve.http import HttpServer

LONGEST_S = 300.0


def add_profiling(server: HttpServer, clock: Clock) -> None:
    async def index(request: web.BaseRequest, info: Info) -> web.Response:
        return web.Response(text="profile?seconds=N\ntasks\ncmdline\n")

    async def cmdline(request: web.BaseRequest, info: Info) -> web.Response:
        return web.Response(text="\0".join(sys.argv))

    async def profile(request: web.BaseRequest, info: Info) -> web.Response:
        try:
            seconds = min(LONGEST_S, float(request.query.get("seconds", "30")))
        except ValueError:
            return web.Response(status=400, text="seconds: must be a number")
        found = cProfile.Profile()
        try:
            found.enable()
        except ValueError as error:
            return web.Response(status=409, text=str(error))
        try:
            await clock.sleep(seconds)
        finally:
            found.disable()
        text = io.StringIO()
        pstats.Stats(found, stream=text).sort_stats("cumulative").print_stats(100)
        return web.Response(text=text.getvalue())

    async def tasks(request: web.BaseRequest, info: Info) -> web.Response:
        text = io.StringIO()
        for task in asyncio.all_tasks():
            task.print_stack(file=text)
        return web.Response(text=text.getvalue())

    for path, handler in (("", index), ("cmdline", cmdline), ("profile", profile), ("tasks", tasks)):
        server.add("GET", f"/debug/pprof/{path}", handler)
