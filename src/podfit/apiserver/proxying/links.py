"""Rewrites links in proxied pages of pods, services and nodes, so that browsers follow them through the API server.

A page at `/api/v1/namespaces/ns/pods/p/proxy/` that links to `/next` means the pod's `/next`. Only links are changed:
all text that is not a complete start tag is left unchanged. The rewriting is a single pass, for any input.
"""

from __future__ import annotations

import asyncio
import html
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec.structs import replace

from podfit.apiserver.request import Request, Response

_TAG = re.compile(r"""<([a-zA-Z][^\s/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)>""")
_ATTRIBUTE = re.compile(r"""(?<![^\s"'/])([^\s"'>/=]+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_LINKS = {
    "a": ("href",),
    "applet": ("codebase",),
    "area": ("href",),
    "audio": ("src",),
    "base": ("href",),
    "blockquote": ("cite",),
    "body": ("background",),
    "button": ("formaction",),
    "command": ("icon",),
    "del": ("cite",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("longdesc", "src"),
    "head": ("profile",),
    "html": ("manifest",),
    "iframe": ("longdesc", "src"),
    "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"),
    "ins": ("cite",),
    "link": ("href",),
    "object": ("classid", "codebase", "data", "usemap"),
    "q": ("cite",),
    "script": ("src",),
    "source": ("src",),
    "video": ("poster", "src"),
}
_VERBATIM = ("iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp")
"""Elements whose content is raw text up to their end tag."""


@dataclass(frozen=True, slots=True)
class Links:
    prefix: str
    """The path at which this server exposes the target's `/`."""
    hosts: frozenset[str]
    """Hosts by which links may refer to the target: its own host and port, and those by which the client reached this
    server.
    """
    requested_host: str = ""
    """The host by which the client reached this server."""

    def seen(self, path: str) -> str:
        """The path on this server of the target's `path`."""
        joined = posixpath.normpath(f"{self.prefix}/{path}")
        return f"{joined}/" if path.endswith("/") and not joined.endswith("/") else joined

    def link(self, url: str) -> str:
        try:
            parts = urlsplit(url)
        except ValueError:
            return url
        if (parts.netloc and parts.netloc not in self.hosts) or not parts.path.startswith("/"):
            return url
        here = bool(parts.netloc) and parts.netloc == self.requested_host
        path = parts.path if parts.path.startswith(self.prefix) else self.seen(parts.path)
        return urlunsplit((*(parts[:2] if here else ("", "")), path, *parts[3:]))

    async def rewritten(self, answer: Response) -> Response:
        """Rewrites a redirect, or the links of a page."""
        moved = [value for name, value in answer.headers if name.lower() == "location"]
        if moved:
            others = [(name, value) for name, value in answer.headers if name.lower() != "location"]
            return replace(answer, headers=[*others, ("Location", self.link(moved[0]))])
        if answer.stream is None or answer.content_type.partition(";")[0].strip() != "text/html":
            return answer
        page = b"".join([piece async for piece in answer.stream])
        return replace(answer, body=await asyncio.to_thread(self.page, page), stream=None)

    def page(self, data: bytes) -> bytes:
        """Rewrites the links of a page. UTF-8 is assumed; other bytes are preserved."""
        text = data.decode("utf-8", "surrogateescape")
        return "".join(self._pieces(text)).encode("utf-8", "surrogateescape")

    def _pieces(self, text: str) -> Iterator[str]:
        done = 0
        while (at := text.find("<", done)) >= 0:
            yield text[done:at]
            done = at
            if text.startswith("<!--", at):
                end = text.find("-->", at)
                if end < 0:
                    break
                end += 3
            elif text[at + 1 : at + 2].isalpha():
                tag = _TAG.match(text, at)
                if tag is None:
                    break
                yield self._tag(tag)
                done = end = tag.end()
                if (name := tag[1].lower()) in _VERBATIM:
                    closing = re.compile(f"</{name}", re.IGNORECASE).search(text, end)
                    if closing is None:
                        break
                    end = closing.start()
            else:
                end = at + 1
            yield text[done:end]
            done = end
        yield text[done:]

    def _tag(self, tag: re.Match[str]) -> str:
        wanted = _LINKS.get(tag[1].lower())
        if wanted is None:
            return tag[0]
        return f"<{tag[1]}{_ATTRIBUTE.sub(_rewriter(wanted, self.link), tag[2])}>"


def leading_through(request: Request, path: str, host: str) -> Links:
    """The rewriter for the response to a request whose URL ends in `path`, sent to `host`."""
    requested_host = request.headers.get("host", "")
    prefix = quote(request.path, safe="/:@!$&'()*+,;=~").removesuffix(path)
    return Links(prefix, frozenset((host, requested_host)), requested_host)


def _rewriter(wanted: tuple[str, ...], link: Callable[[str], str]) -> Callable[[re.Match[str]], str]:
    def rewrite(attribute: re.Match[str]) -> str:
        name, written = attribute[1], attribute[2]
        if name.lower() not in wanted:
            return attribute[0]
        quoted = written[0] in "\"'"
        url = html.unescape(written[1:-1] if quoted else written)
        return attribute[0] if (found := link(url)) == url else f'{name}="{html.escape(found)}"'

    return rewrite
