"""A client for the part of Prometheus' HTTP API that the history needs: instant and range queries, with a rate limit.

A range response is split into its series while it arrives, so that only one series is decoded at a time.
"""

from __future__ import annotations

import http.client
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec
import numpy as np
from numpy.typing import NDArray

from podfit.kit.clock import Clock
from podfit.vpa.history.base import HistoryUnavailable
from podfit.vpa.history.queries import Part, PrometheusConfig
from podfit.vpa.model.times import Seconds

_HEAD = b'"result":['
_BETWEEN = b']]},{"metric":'
"""The separator of two series. Quotes inside label values are escaped, so a value cannot look like this."""
_BUSY = (408, 425, 429, 500, 502, 503, 504)

Measured = Callable[[str, str, float], None]
"""Called for every request: code, method, seconds."""
Floats = NDArray[np.float64]


class QueryRefused(Exception):
    """Prometheus rejected the query; a retry will not help."""


class ResponseTooLarge(Exception):
    """The response would be too large; the query must cover less."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] = (0.0, "0")


class _Data(msgspec.Struct):
    resultType: str = ""
    result: list[_Series] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    errorType: str = ""
    warnings: list[str] = []


_TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


class _Tail(msgspec.Struct):
    warnings: list[str] = []


_tail = msgspec.json.Decoder(_Tail)
_answer = msgspec.json.Decoder(_Answer)
_series = msgspec.json.Decoder(_Series)


@dataclass(frozen=True, slots=True)
class InstantSample:
    labels: Mapping[str, str]
    value: float


class PrometheusApi:
    def __init__(self, config: PrometheusConfig, clock: Clock, measured: Measured | None = None) -> None:
        self._config, self._clock, self.measured = config, clock, measured
        self._session: aiohttp.ClientSession | None = None
        self._free_at = 0.0
        self.sent = 0
        self.warnings: dict[str, None] = {}
        """The warnings in Prometheus' responses in order, for example that part of the data could not be read."""

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def instant(self, query: str, at: Seconds) -> list[InstantSample]:
        body = b"".join([chunk async for chunk in self._post("query", {"query": query, "time": f"{at:.3f}"})])
        answer = _decoded(body)
        self.warnings.update(dict.fromkeys(answer.warnings))
        return [InstantSample(result.metric, float(result.value[1])) for result in answer.data.result]

    async def range(self, query: str, part: Part) -> AsyncIterator[tuple[dict[str, str], Floats, Floats]]:
        """Queries a range; yields the labels, times and values of each series."""
        parameters = {
            "query": query,
            "start": f"{part.start:.3f}",
            "end": f"{part.end:.3f}",
            "step": f"{part.step:.3f}",
        }
        rest, begun = b"", False
        async for chunk in self._post("query_range", parameters):
            rest += chunk
            if not begun:
                if _HEAD + b'{"metric":' not in rest:
                    continue
                rest = rest.split(_HEAD, 1)[1].removeprefix(b'{"metric":')
                begun = True
            *whole, rest = rest.split(_BETWEEN)
            for text in whole:
                yield _one(b'{"metric":' + text + b"]]}")
        if not begun:
            answer = _decoded(rest)
            self.warnings.update(dict.fromkeys(answer.warnings))
            for result in answer.data.result:
                yield _columns(result)
            return
        end = rest.rfind(b"]]}")
        # The list of series must be closed as well: a response may be cut off between two series.
        if end < 0 or not rest[end + 3 :].lstrip().startswith(b"]"):
            raise HistoryUnavailable("the response of Prometheus was cut off")
        self.warnings.update(dict.fromkeys(_warnings(rest[end + 3 :])))
        yield _one(b'{"metric":' + rest[: end + 3])

    async def _post(self, path: str, parameters: Mapping[str, str]) -> AsyncIterator[bytes]:
        await self._wait_for_rate()
        started = self._clock.monotonic()
        code = "error"
        try:
            url = f"{self._config.prometheus_address.rstrip('/')}/api/v1/{path}"
            async with self._http().post(url, data=parameters, headers=self._authorization()) as answer:
                code = str(answer.status)
                if answer.status != 200:
                    _raise(answer.status, await answer.read())
                async for chunk in answer.content.iter_chunked(1 << 18):
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            # A timeout error has no message of its own.
            words = _words(error) or f"no answer within {self._config.prometheus_query_timeout:g} s"
            raise HistoryUnavailable(f"Prometheus {self._config.prometheus_address}: {words}") from error
        finally:
            if self.measured is not None:
                self.measured(code, "post", self._clock.monotonic() - started)

    async def _wait_for_rate(self) -> None:
        """Enforces the limit on queries per second, however many parts there are."""
        self.sent += 1
        if self._config.prometheus_queries_per_second <= 0:
            return
        now = self._clock.monotonic()
        wait, self._free_at = (
            self._free_at - now,
            max(now, self._free_at) + (1.0 / self._config.prometheus_queries_per_second),
        )
        if wait > 0:
            await self._clock.sleep(wait)

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            verify: ssl.SSLContext | bool = True
            if self._config.prometheus_insecure:
                verify = ssl.create_default_context()
                verify.check_hostname = False
                verify.verify_mode = ssl.CERT_NONE
            timeout = aiohttp.ClientTimeout(total=self._config.prometheus_query_timeout, sock_connect=10.0)
            connector = aiohttp.TCPConnector(ssl=verify, limit=4)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self._session

    def _authorization(self) -> dict[str, str]:
        config = self._config
        token = config.prometheus_bearer_token
        if config.prometheus_bearer_token_file:
            token = Path(config.prometheus_bearer_token_file).read_text().strip()
        if token:
            return {"Authorization": f"Bearer {token}"}
        user = config.username or os.environ.get("PROMETHEUS_USERNAME", "")
        password = config.password or os.environ.get("PROMETHEUS_PASSWORD", "")
        return {"Authorization": aiohttp.BasicAuth(user, password).encode()} if user else {}


def _decoded(body: bytes) -> _Answer:
    try:
        return _answer.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise HistoryUnavailable(f"the response of Prometheus cannot be read: {error}") from error


def _words(error: Exception) -> str:
    """The cause of a failed request. Connection errors of asyncio repeat the address, so their number is named."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLError) or not isinstance(cause, OSError) or not cause.errno:
        return str(cause)
    words = os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
    return f"{cause.filename}: {words}" if cause.filename else words


def _raise(status: int, body: bytes) -> None:
    try:
        words = _answer.decode(body).error
    except (msgspec.DecodeError, ValueError):
        # A proxy may respond with an HTML page; the log gets its text on one line.
        words = " ".join(_TAG.sub(" ", body.decode("utf-8", "replace")).split())[:200]
    words = words or http.client.responses.get(status, "no reason given")
    # "limit" may be one of the size of a query, but with 429 it is one of the number of queries.
    large = any(word in words for word in ("too many samples", "exceeded maximum resolution", "limit"))
    if large and status != http.HTTPStatus.TOO_MANY_REQUESTS:
        raise ResponseTooLarge(f"Prometheus: {words}")
    if status in _BUSY:
        raise HistoryUnavailable(f"Prometheus answered {status}: {words}")
    raise QueryRefused(f"Prometheus answered {status}: {words}")


def _warnings(tail: bytes) -> list[str]:
    """Warnings in the text after the series: `]},"warnings":[…]}`."""
    found = tail.find(b'"warnings":')
    if found < 0:
        return []
    try:
        return list(_tail.decode(b"{" + tail[found:]).warnings)
    except (msgspec.DecodeError, ValueError) as error:
        raise HistoryUnavailable(f"the response of Prometheus cannot be read: {error}") from error


def _one(text: bytes) -> tuple[dict[str, str], Floats, Floats]:
    try:
        return _columns(_series.decode(text))
    except (msgspec.DecodeError, ValueError) as error:
        raise HistoryUnavailable(f"the response of Prometheus cannot be read: {error}") from error


def _columns(series: _Series) -> tuple[dict[str, str], Floats, Floats]:
    times = np.fromiter((at for at, _ in series.values), np.float64, len(series.values))
    values = np.fromiter((float(text) for _, text in series.values), np.float64, len(series.values))
    return series.metric, times, values
