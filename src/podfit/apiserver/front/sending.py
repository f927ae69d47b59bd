"""Sends long responses in slices, because a TLS connection encrypts each write at once. They are compressed in a thread
of low priority if the client accepts that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from aiohttp import web

from podfit.apiserver.request import Response

_SLICE = 128 * 1024
_SLOWEST = 1 << 20
"""Bytes per second that a client must be able to receive, beyond the time allowed for any response."""
_GZIP = 16 + zlib.MAX_WBITS


def _behind_the_loop() -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


_compressors = ThreadPoolExecutor(1, "compress", _behind_the_loop)


def put_headers(answer: web.StreamResponse, response: Response) -> None:
    headers = answer.headers
    headers["Content-Type"] = response.content_type
    headers["Cache-Control"] = "no-cache, private"
    for key, value in response.headers:
        headers.add(key, value)


async def send_long(http: web.BaseRequest, response: Response, timeout_s: float) -> web.StreamResponse:
    pieces = response.pieces if response.pieces is not None else [response.body]
    size = sum(map(len, pieces))
    answer = web.StreamResponse(status=response.status)
    put_headers(answer, response)
    compressor = None
    if "gzip" in http.headers.get("Accept-Encoding", ""):
        compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
        answer.headers["Content-Encoding"] = "gzip"
        answer.headers["Vary"] = "Accept-Encoding"
        answer.enable_chunked_encoding()
    else:
        answer.content_length = size
    try:
        async with asyncio.timeout(timeout_s + size / _SLOWEST):
            await answer.prepare(http)
            await _write(answer, pieces, compressor)
            await answer.write_eof()
    except TimeoutError:
        # The client reads too slowly: only closing the connection signals that.
        if http.transport is not None:
            http.transport.abort()
    return answer


async def _write(answer: web.StreamResponse, pieces: list[bytes], compressor: zlib._Compress | None) -> None:
    if compressor is None:
        for part in _parts(pieces):
            await answer.write(part)
            await asyncio.sleep(0)
        return
    loop = asyncio.get_running_loop()
    for part in _parts(pieces):
        if data := await loop.run_in_executor(_compressors, compressor.compress, part):
            await answer.write(data)
    await answer.write(compressor.flush())


def _parts(pieces: list[bytes]) -> Iterator[bytes | memoryview]:
    for piece in pieces:
        if len(piece) <= _SLICE:
            if piece:
                yield piece
            continue
        view = memoryview(piece)
        for start in range(0, len(piece), _SLICE):
            yield view[start : start + _SLICE]
