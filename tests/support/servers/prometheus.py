"""A real Prometheus for tests and benchmarks: generated history is converted to blocks and served on a free port."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp


def installed() -> bool:
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


def backfill(folder: Path, lines: Iterable[str]) -> None:
    """Writes blocks that a Prometheus can serve to the folder; `lines` are OpenMetrics, with `# EOF` at the end."""
    text = folder / "history.om"
    with text.open("w") as file:
        file.writelines(f"{line}\n" for line in lines)
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=24h"]
    subprocess.run([*made, str(text), str(folder / "data")], check=True, capture_output=True)
    text.unlink()
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")


class Prometheus:
    def __init__(self, folder: Path, config: str = "prometheus.yml") -> None:
        """`config`: the name of the configuration file in the folder."""
        self.folder, self.port, self._config = folder, _free_port(), config
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            "prometheus",
            f"--config.file={self.folder / self._config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--storage.tsdb.retention.time=30d",
            f"--web.listen-address=127.0.0.1:{self.port}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with aiohttp.ClientSession() as session, asyncio.timeout(60):
            while not await self._ready(session):
                await asyncio.sleep(0.05)

    async def _ready(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"{self.url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def ask(self, path: str, **query: str) -> Any:
        """The response of its HTTP API: `ask("query", query="up")`."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v1/{path}", params=query) as answer:
            content = await answer.json()
        assert content["status"] == "success", content
        return content["data"]

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()
            self._process = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
