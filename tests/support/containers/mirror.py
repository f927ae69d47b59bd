"""A registry in a thread that serves a few images to a container runtime in place of public registries.

It has no fault injection; tests of pulling use tests.support.containers.registry, which has.
"""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.support.containers.ociimages import MANIFEST, Layout

_PATH = re.compile(r"/v2/(?P<name>[^?]+)/(?P<kind>manifests|blobs)/(?P<which>[^/?]+)")


class Mirror:
    def __init__(self, host: str, images: Layout) -> None:
        """`host`: the address to listen on."""
        self.pulls: list[str] = []
        """Names of the requested manifests."""
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(body=True)

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def _answer(self, body: bool) -> None:
                found = mirror.find(images, self.path)
                status, data, kind, digest = found or (404, b"{}", "application/json", "")
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                if digest:
                    self.send_header("Docker-Content-Digest", digest)
                self.end_headers()
                if body:
                    self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Suppresses the log on stderr."""

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, name="mirror", daemon=True).start()

    def find(self, images: Layout, path: str) -> tuple[int, bytes, str, str] | None:
        if path.rstrip("/") == "/v2":
            return 200, b"{}", "application/json", ""
        asked = _PATH.match(path)
        if asked is None:
            return None
        digest = asked["which"]
        if not digest.startswith("sha256:"):
            whole = f"{asked['name']}:{digest}"
            digest = next((found for name, found in images.manifests.items() if name.endswith(f"/{whole}")), "")
            self.pulls.append(whole)
        data = images.blobs.get(digest)
        if data is None:
            return None
        return 200, data, MANIFEST if asked["kind"] == "manifests" else "application/octet-stream", digest

    def stand_in(self, folder: Path, registries: tuple[str, ...]) -> None:
        """Writes the containerd configuration that redirects requests for these registries to this mirror."""
        for registry in registries:
            place = folder / registry
            place.mkdir(parents=True, exist_ok=True)
            host = f'server = "{self.url}"\n[host."{self.url}"]\n  capabilities = ["pull", "resolve"]\n'
            (place / "hosts.toml").write_text(host)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
