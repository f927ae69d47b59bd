"""The agent's end of the socket to the keeper: starts the keeper if needed, sends requests, and receives exits.

Messages are JSON in packets (SOCK_SEQPACKET preserves their boundaries), with descriptors attached. If the keeper dies,
the link starts another one, which adopts the containers, and calls `lost`, so that the runtime reads all states again.
"""

from __future__ import annotations

import array
import asyncio
import itertools
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from podfit.agent.runtimes.values import RuntimeFailure
from podfit.kit.backoff import Backoff
from podfit.kit.concurrency.tasks import Tasks

log = logging.getLogger(__name__)

Message = dict[str, Any]
_SOURCE = str(Path(__file__).resolve().parents[4])
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from podfit.agent.runtimes.process.keeper.main import main
main(sys.argv[2], int(sys.argv[3]))
"""


class KeeperFailed(RuntimeFailure):
    """The keeper refused or could not be reached."""


class Link:
    def __init__(self, data_dir: Path, event: Callable[[Message], None], lost: Callable[[], None]) -> None:
        self.data_dir = data_dir
        self._event, self._lost = event, lost
        self._socket: socket.socket | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._tasks = Tasks("keeper link")
        self._writable = asyncio.Event()
        self._turn = asyncio.Lock()
        self._opening = False

    async def open(self) -> None:
        self._opening = True
        try:
            await self._open()
        finally:
            self._opening = False

    async def _open(self) -> None:
        for _ in range(10):
            endpoint = self._connect()
            if endpoint is None:
                await asyncio.to_thread(self._spawn)
                endpoint = self._connect()
            if endpoint is not None:
                endpoint.setblocking(False)
                self._socket = endpoint
                asyncio.get_running_loop().add_reader(endpoint.fileno(), self._readable)
                try:
                    await self.ask("list")
                    return
                except KeeperFailed:
                    # The keeper was exiting when we connected: a dying process still accepts for a moment.
                    self._disconnect("not answering")
                    await asyncio.sleep(0.01)
        raise RuntimeFailure(f"the keeper of {self.data_dir} does not answer; its log is {self.data_dir}/keeper.log")

    async def close(self) -> None:
        self._disconnect("closed")
        await self._tasks.stop()

    async def ask(self, operation: str, descriptors: tuple[int, ...] = (), **body: Any) -> Message:
        if self._socket is None:
            raise KeeperFailed("the keeper is not connected")
        number = next(self._numbers)
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        data = json.dumps({"n": number, "op": operation, **body}).encode()
        try:
            async with self._turn:
                if not future.done():  # otherwise the keeper exited while other tasks ran
                    await self._send(self._socket, data, descriptors)
            answer = await future
        finally:
            self._waiting.pop(number, None)
        if "error" in answer:
            raise KeeperFailed(answer["error"])
        return answer

    async def _send(self, endpoint: socket.socket, data: bytes, descriptors: tuple[int, ...]) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        while self._socket is endpoint:
            try:
                endpoint.sendmsg([data], rights)
                return
            except BlockingIOError:
                await self._until_writable(endpoint)
            except OSError as error:
                raise KeeperFailed(f"the keeper exited: {error.strerror}") from error
        raise KeeperFailed("the keeper is not connected")

    async def _until_writable(self, endpoint: socket.socket) -> None:
        """Waits until the socket accepts data, or the keeper has exited."""
        loop = asyncio.get_running_loop()
        self._writable.clear()
        loop.add_writer(endpoint.fileno(), self._writable.set)
        try:
            await self._writable.wait()
        finally:
            if self._socket is endpoint:
                loop.remove_writer(endpoint.fileno())

    def _readable(self) -> None:
        while self._socket is not None:
            try:
                data = self._socket.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._disconnect("the keeper exited")
                if not self._opening:
                    self._tasks.start(self._again())
                return
            message = json.loads(data)
            if "re" not in message:
                self._event(message)
                continue
            future = self._waiting.get(message["re"])
            if future is not None and not future.done():
                future.set_result(message)

    async def _again(self) -> None:
        log.warning("the keeper of %s exited, starting another", self.data_dir)
        backoff = Backoff(0.1, 10.0)
        while self._socket is None:
            try:
                await self.open()
            except (RuntimeFailure, OSError) as error:
                log.error("%s; trying again", error)
                await asyncio.sleep(backoff.next())
        self._lost()

    def _disconnect(self, why: str) -> None:
        if self._socket is not None:
            loop, descriptor = asyncio.get_running_loop(), self._socket.fileno()
            loop.remove_reader(descriptor)
            loop.remove_writer(descriptor)
            self._socket.close()
            self._socket = None
            self._writable.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_result({"error": why})

    def _connect(self) -> socket.socket | None:
        endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        folder = os.open(self.data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            endpoint.connect(f"/proc/self/fd/{folder}/keeper.sock")
        except OSError:
            endpoint.close()
            return None
        finally:
            os.close(folder)
        return endpoint

    def _spawn(self) -> None:
        ready, theirs = os.pipe()
        arguments = [sys.executable, "-I", "-S", "-E", "-c", _PROGRAM, _SOURCE, str(self.data_dir), str(theirs)]
        with open(self.data_dir / "keeper.log", "ab") as output:
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(theirs,), close_fds=True
            )
        os.close(theirs)
        try:
            while os.read(ready, 4096):
                pass
        finally:
            os.close(ready)
        # The process started here only forked the keeper, which is meant to outlive the agent.
        process.wait()
