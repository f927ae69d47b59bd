"""A small web service: each answer costs about $WORK_MS milliseconds of CPU."""

import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORK_S = float(os.environ.get("WORK_MS", "10")) / 1000


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path != "/healthz":
            end = time.thread_time() + WORK_S
            while time.thread_time() < end:
                pass
        body = b"hello\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
