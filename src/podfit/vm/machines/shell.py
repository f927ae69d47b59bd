"""A command in the guest with streams: the agent itself neither streams nor takes input while a command runs.

The command runs in a shell of the guest, with its input from a named pipe and its output in files, which the agent
reads and writes piece by piece while the command runs.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from contextlib import suppress

from podfit.streaming.ends import StreamFailure
from podfit.vm.machines.guest import AgentFailed, GuestAgent

_PIECE = 48 * 1024
_PAUSE_S = (0.02, 0.02, 0.05, 0.1)
_PREPARE = 'mkdir -m 700 "$0" && : >"$0/out" && : >"$0/err" && '
_SCRIPT = _PREPARE + 'mkfifo "$0/in" && exec "$@" <"$0/in" >"$0/out" 2>"$0/err"'
_NO_INPUT = _PREPARE + 'exec "$@" </dev/null >"$0/out" 2>"$0/err"'


class GuestExec:
    """A running command, as the streaming server wants it."""

    def __init__(self, agent: GuestAgent, words: list[str], stdin: bool) -> None:
        self._agent, self._words, self._takes_input = agent, words, stdin
        self._folder = f"/tmp/.podfit-{secrets.token_hex(8)}"
        self._handles: dict[int, int] = {}
        self._input: int | None = None
        self._pid = 0
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Raises StreamFailure."""
        script = _SCRIPT if self._takes_input else _NO_INPUT
        try:
            command = ["/bin/sh", "-c", script, self._folder, *self._words]
            self._pid = int((await self._agent.command("guest-exec", path=command[0], arg=command[1:]))["pid"])
            for channel, name in ((1, "out"), (2, "err")):
                self._handles[channel] = await self._open(name, "r")
            if self._takes_input:
                self._input = await self._open("in", "w")
        except AgentFailed as error:
            raise StreamFailure(f"the guest cannot run {self._words[0]!r}: {error}") from error

    async def _open(self, name: str, mode: str) -> int:
        for pause in (*_PAUSE_S, 0.2, 0.5, 1.0):
            with suppress(AgentFailed):
                return int(await self._agent.command("guest-file-open", path=f"{self._folder}/{name}", mode=mode))
            await asyncio.sleep(pause)
        raise AgentFailed("the guest's shell did not start")

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece; None once the command has ended and everything was read."""
        pauses = iter(_PAUSE_S)
        try:
            while True:
                over = await self._over()
                for channel, handle in self._handles.items():
                    found = await self._agent.command("guest-file-read", handle=handle, count=_PIECE)
                    if found["count"]:
                        return channel, base64.b64decode(found["buf-b64"])
                    # The end of the file is where the command writes next.
                    await self._agent.command("guest-file-seek", handle=handle, offset=0, whence="cur")
                if over:
                    return None
                await asyncio.sleep(next(pauses, _PAUSE_S[-1]))
        except AgentFailed as error:
            if not self._ended.done():
                self._ended.set_exception(StreamFailure(str(error)))
                self._ended.exception()
            return None

    async def _over(self) -> bool:
        if not self._ended.done():
            found = await self._agent.command("guest-exec-status", pid=self._pid)
            if found["exited"]:
                code = found.get("exitcode")
                self._ended.set_result(int(code) if code is not None else 128 + int(found.get("signal", 0)))
        return self._ended.done()

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE):
            if self._input is None:
                return
            piece = base64.b64encode(data[at : at + _PIECE]).decode()
            try:
                await self._agent.command("guest-file-write", handle=self._input, **{"buf-b64": piece})
                await self._agent.command("guest-file-flush", handle=self._input)
            except AgentFailed:
                await self.close_stdin()

    async def close_stdin(self) -> None:
        if self._input is not None:
            handle, self._input = self._input, None
            with suppress(AgentFailed):
                await self._agent.command("guest-file-close", handle=handle)

    async def resize(self, columns: int, rows: int) -> None:
        return

    async def wait(self) -> int:
        return await self._ended

    async def close(self) -> None:
        await self.close_stdin()
        with suppress(AgentFailed):
            for handle in self._handles.values():
                await self._agent.command("guest-file-close", handle=handle)
            self._handles.clear()
            if not self._ended.done():
                await self._agent.start(["/bin/kill", "-9", str(self._pid)])
                self._ended.set_result(137)
            await self._agent.start(["/bin/rm", "-rf", self._folder])
