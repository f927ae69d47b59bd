"""Runs a command in the guest with streams: the agent itself neither streams nor takes input while a command runs.

The command runs in a shell of the guest, with its input from a named pipe and its output in files, which the agent
reads and writes piece by piece while the command runs. A command with a terminal runs under `script` (util-linux),
which every larger Linux has.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import shlex
from contextlib import suppress

from podfit.streaming.ends import StreamFailure
from podfit.vm.machines.guest import AgentFailed, GuestAgent

_PIECE = 48 * 1024
_NOT_FOUND = 127
_PAUSE_S = (0.02, 0.02, 0.05, 0.1)
# The pipe is created before the files, whose presence shows that it exists: otherwise the agent would create a file in
# its place.
_FOLDER, _FILES = 'mkdir -m 700 "$0" && ', ': >"$0/out" && : >"$0/err" || exit 1; '
_PIPE = 'mkfifo "$0/in" && '
_CHECK = 'command -v "$%d" >/dev/null || { : >"$0/missing"; exit 127; }; '
_SCRIPT = _FOLDER + _PIPE + _FILES + _CHECK % 1 + 'exec "$@" <"$0/in" >"$0/out" 2>"$0/err"'
_NO_INPUT = _FOLDER + _FILES + _CHECK % 1 + 'exec "$@" </dev/null >"$0/out" 2>"$0/err"'
_TERMINAL = (
    _FOLDER + _PIPE + _FILES + _CHECK % 2 + 'export SHELL=/bin/sh TERM="${TERM:-xterm}" && '
    'exec script -qefc "$1" /dev/null <"$0/in" >"$0/out" 2>&1'
)
# `script` turns the echo off if its own input is not a terminal.
_IN_TERMINAL = "tty >{folder}/tty; stty sane; exec {command}"
_RESIZE = (
    'for _ in 1 2 3 4 5 6 7 8 9 10; do [ -s "$0/tty" ] && break; sleep 0.2; done; '
    'stty cols "$1" rows "$2" <"$(cat "$0/tty")"'
)
NO_TERMINAL = (
    "the guest has no program `script` (util-linux), under which commands get a terminal: leave out --tty, "
    "or use the serial console (kubectl attach --stdin --tty)"
)


class GuestExec:
    """A running command, with the interface that the streaming server needs."""

    def __init__(self, agent: GuestAgent, words: list[str], stdin: bool, tty: bool = False) -> None:
        self._agent, self._words, self._takes_input, self._tty = agent, words, stdin, tty
        self._folder = f"/tmp/.podfit-{secrets.token_hex(8)}"
        self._handles: dict[int, int] = {}
        self._input: int | None = None
        self._pid = 0
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Starts the command. Raises StreamFailure."""
        try:
            command = ["/bin/sh", "-c", *(await self._terminal() if self._tty else self._plain())]
            self._pid = int((await self._agent.command("guest-exec", path=command[0], arg=command[1:]))["pid"])
            for channel, name in ((1, "out"), (2, "err")):
                self._handles[channel] = await self._open(name)
            if self._takes_input or self._tty:
                self._input = await self._open_input()
        except AgentFailed as error:
            raise StreamFailure(f"the guest cannot run {self._words[0]!r}: {error}") from error

    def _plain(self) -> list[str]:
        return [_SCRIPT if self._takes_input else _NO_INPUT, self._folder, *self._words]

    async def _terminal(self) -> list[str]:
        if (await self._agent.run(["/bin/sh", "-c", "command -v script && command -v stty"])).code:
            raise StreamFailure(NO_TERMINAL)
        inner = _IN_TERMINAL.format(folder=self._folder, command=shlex.join(self._words))
        return [_TERMINAL, self._folder, inner, self._words[0]]

    async def _open(self, name: str, mode: str = "r") -> int:
        for pause in (*_PAUSE_S, 0.2, 0.5, 1.0):
            with suppress(AgentFailed):
                return int(await self._agent.command("guest-file-open", path=f"{self._folder}/{name}", mode=mode))
            if mode == "w" and await self._over():
                break
            await asyncio.sleep(pause)
        raise AgentFailed("the guest's shell did not start")

    async def _open_input(self) -> int | None:
        """Opens the input pipe; None if the command has ended before it could read."""
        try:
            return await self._open("in", "w")
        except AgentFailed:
            if self._ended.done():
                return None
            raise

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece of output; None once the command has ended and everything was read."""
        pauses = iter(_PAUSE_S)
        try:
            while True:
                over = await self._over()
                for channel, handle in self._handles.items():
                    found = await self._agent.command("guest-file-read", handle=handle, count=_PIECE)
                    if found["count"]:
                        return channel, base64.b64decode(found["buf-b64"])
                    # The command writes next at the end of the file.
                    await self._agent.command("guest-file-seek", handle=handle, offset=0, whence="cur")
                if over:
                    return None
                await asyncio.sleep(next(pauses, _PAUSE_S[-1]))
        except AgentFailed as error:
            self._fail(str(error))
            return None

    async def _over(self) -> bool:
        if not self._ended.done():
            found = await self._agent.command("guest-exec-status", pid=self._pid)
            if found["exited"]:
                code = found.get("exitcode")
                if code == _NOT_FOUND and await self._missing():
                    self._fail(f"exec: {self._words[0]!r}: no such file or directory in the guest")
                else:
                    self._ended.set_result(int(code) if code is not None else 128 + int(found.get("signal", 0)))
        return self._ended.done()

    async def _missing(self) -> bool:
        with suppress(AgentFailed):
            path = f"{self._folder}/missing"
            await self._agent.command(
                "guest-file-close", handle=await self._agent.command("guest-file-open", path=path)
            )
            return True
        return False

    def _fail(self, message: str) -> None:
        if not self._ended.done():
            self._ended.set_exception(StreamFailure(message))
            self._ended.exception()

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
        if self._tty:
            with suppress(AgentFailed):
                await self._agent.start(["/bin/sh", "-c", _RESIZE, self._folder, str(columns), str(rows)])

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
