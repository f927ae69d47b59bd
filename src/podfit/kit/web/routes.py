"""Maps paths to handlers, for the HTTP servers of podfit's components. aiohttp's router is not used because a process
may host a thousand nodes, and it would need more memory for each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import unquote

from aiohttp import web

Info = Mapping[str, str]
"""The named parts of a path."""
Handler = Callable[[web.BaseRequest, Info], Awaitable[web.StreamResponse]]
_Row = tuple[tuple[str, ...], tuple[str, ...], Handler]


class Refusal(Exception):
    """The response is an HTTP error with this text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def words_of(raw_path: str) -> list[str]:
    """The segments of a path, at least one. Authorization uses the same segments as the handlers."""
    return [unquote(part) for part in raw_path.partition("?")[0].strip("/").split("/")]


class Routes:
    def __init__(self) -> None:
        self._by_head: dict[str, list[_Row]] = {}

    def add(self, methods: str, pattern: str, handler: Handler) -> None:
        """`methods` are separated by spaces; in `pattern`, a segment in braces matches any text."""
        head, *parts = pattern.strip("/").split("/")
        self._by_head.setdefault(head, []).append((tuple(methods.split()), tuple(parts), handler))

    def paths(self) -> list[str]:
        return ["/".join(("", head, *parts)) for head, rows in self._by_head.items() for _, parts, _ in rows]

    def find(self, method: str, words: Sequence[str]) -> tuple[Handler, Info]:
        head, *parts = words
        known = False
        for methods, pattern, handler in self._by_head.get(head, ()):
            info = _match(pattern, parts)
            if info is not None:
                known = True
                if method in methods or (method == "HEAD" and "GET" in methods):
                    return handler, info
        raise Refusal(405, "405: Method Not Allowed") if known else Refusal(404, "404: Page Not Found")


def _match(pattern: tuple[str, ...], parts: list[str]) -> Info | None:
    if len(pattern) != len(parts):
        return None
    info: dict[str, str] = {}
    for wanted, part in zip(pattern, parts, strict=True):
        if wanted.startswith("{"):
            if not part:
                return None
            info[wanted[1:-1]] = part
        elif wanted != part:
            return None
    return info
