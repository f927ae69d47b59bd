"""Parses CRI's log format, `<RFC 3339 time> <stdout|stderr> <F|P>[:tag] <text>`, and selects the entries that a request
selects.

P marks part of a line that the next entry continues. Pure: bytes in, bytes out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_SECOND = 1_000_000_000
_TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)$")
_STREAMS = {"All": b"", "Stdout": b"stdout", "Stderr": b"stderr"}


class BadLogOptions(ValueError):
    """The message names the option."""


def nanos_of(text: str) -> int:
    """Converts an RFC 3339 time with up to nine decimals to nanoseconds since the epoch."""
    match = _TIME.match(text)
    if match is None:
        raise BadLogOptions(f"{text!r} is not an RFC 3339 time")
    zone = "+00:00" if match[3] in "Zz" else match[3]
    try:
        moment = datetime.fromisoformat(match[1].upper() + zone)
    except ValueError as error:
        raise BadLogOptions(f"{text!r} is not an RFC 3339 time") from error
    return int(moment.astimezone(UTC).timestamp()) * _SECOND + int((match[2] or "0").ljust(9, "0"))


@dataclass(frozen=True, slots=True)
class LogOptions:
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_nanos: int | None = None
    limit_bytes: int | None = None
    stream: bytes = b""
    """b"" for both, else b"stdout" or b"stderr"."""

    @staticmethod
    def parse(query: Mapping[str, Sequence[str]], now: float) -> LogOptions:
        """Parses a request's query, with the API's parameter names."""
        words = {key: values[0] for key, values in query.items() if values}
        seconds = _number(words, "sinceSeconds", 1)
        since = nanos_of(words["sinceTime"]) if words.get("sinceTime") else None
        if seconds is not None and since is not None:
            raise BadLogOptions("at most one of `sinceTime` or `sinceSeconds` may be specified")
        if seconds is not None:
            since = int((now - seconds) * _SECOND)
        stream = words.get("stream") or "All"
        if stream not in _STREAMS:
            raise BadLogOptions(f"stream: {stream!r} must be All, Stdout or Stderr")
        return LogOptions(
            _parse_bool(words, "follow"),
            _parse_bool(words, "previous"),
            _parse_bool(words, "timestamps"),
            _number(words, "tailLines", 0),
            since,
            _number(words, "limitBytes", 1),
            _STREAMS[stream],
        )


def _parse_bool(words: Mapping[str, str], name: str) -> bool:
    return words.get(name, "false").lower() in ("true", "1", "t")


def _number(words: Mapping[str, str], name: str, least: int) -> int | None:
    text = words.get(name, "")
    if not text:
        return None
    try:
        value = int(text)
    except ValueError:
        raise BadLogOptions(f"{name}: {text!r} is no number") from None
    if value < least:
        raise BadLogOptions(f"{name}: must be greater than or equal to {least}")
    return value


class LogPrinter:
    """Converts a log file, piece by piece, to the requested form."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._rest = b""
        self._left = options.limit_bytes
        self._since = options.since_nanos
        self._fresh: dict[bytes, bool] = {}
        """Whether the next entry begins a line, by stream."""

    @property
    def full(self) -> bool:
        """Whether `limitBytes` is exhausted."""
        return self._left == 0

    def feed(self, data: bytes) -> bytes:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return self._limited(b"".join([self._printable(line) for line in lines]))

    def finish(self) -> bytes:
        """Emits an entry without its line end, whose writer died while writing it."""
        rest, self._rest = self._rest, b""
        return self._limited(self._printable(rest)) if rest else b""

    def _printable(self, line: bytes) -> bytes:
        parts = line.split(b" ", 3)
        if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr"):
            return b""
        stamp, stream, tag = parts[:3]
        text = parts[3] if len(parts) == 4 else b""
        if self._options.stream and stream != self._options.stream:
            return b""
        if self._since is not None:
            if not self._recent(stamp):
                return b""
            # Times only increase: the rest need not be read.
            self._since = None
        start = self._fresh.get(stream, True)
        whole = not tag.startswith(b"P")
        self._fresh[stream] = whole
        shown = text + b"\n" if whole else text
        return stamp + b" " + shown if self._options.timestamps and start else shown

    def _recent(self, stamp: bytes) -> bool:
        try:
            return self._since is None or nanos_of(stamp.decode()) >= self._since
        except (BadLogOptions, UnicodeDecodeError):
            return False

    def _limited(self, shown: bytes) -> bytes:
        if self._left is None:
            return shown
        shown = shown[: self._left]
        self._left -= len(shown)
        return shown
