"""The socket between agent and keeper: neither waits for ever if the other does not read or is gone."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podfit.agent.runtimes.process.keeper.main import Connection, Keeper
from podfit.agent.runtimes.process.link import KeeperFailed, Link
from podfit.agent.runtimes.values import RuntimeFailure

PATIENCE_S = 30.0
MANY = 2000


class FailsOnce(Link):
    """Finds no keeper on the first attempt after the previous keeper is gone."""

    opened = 0

    async def _open(self) -> None:
        self.opened += 1
        if self.opened == 2:
            raise RuntimeFailure("no keeper")
        await super()._open()


class DeafKeeper:
    """Accepts connections and answers the first request of each."""

    def __init__(self, folder: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(folder / "keeper.sock"))
        self._listener.listen()
        self._listener.setblocking(False)

    async def connected(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        endpoint, _ = await loop.sock_accept(self._listener)
        question = json.loads(await loop.sock_recv(endpoint, 1 << 16))
        await loop.sock_sendall(endpoint, json.dumps({"re": question["n"]}).encode())
        return endpoint

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[DeafKeeper]:
    made = DeafKeeper(tmp_path)
    yield made
    made.close()


async def test_a_waiting_caller_gets_an_error_when_the_keeper_exits(tmp_path: Path, keeper: DeafKeeper) -> None:
    lost = asyncio.Event()
    link = FailsOnce(tmp_path, lambda _: None, lost.set)
    async with asyncio.timeout(PATIENCE_S):
        endpoint, _ = await asyncio.gather(keeper.connected(), link.open())
        asks = [asyncio.ensure_future(link.ask("list")) for _ in range(MANY)]
        await asyncio.sleep(0)
        assert link._turn.locked()
        endpoint.close()
        answers = await asyncio.gather(*asks, return_exceptions=True)
        assert {type(answer) for answer in answers} == {KeeperFailed}

        again = await keeper.connected()
        await lost.wait()
        await link.close()
        again.close()
    assert link.opened == 3


def test_an_agent_that_takes_no_answers_is_dropped(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    keeper, connection = Keeper(str(tmp_path)), Connection(theirs)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    keeper.connections.append(connection)
    keeper.listen(theirs.fileno(), lambda: keeper.receive(connection))
    asked = 0
    while keeper.connections and asked < MANY:
        ours.send(json.dumps({"n": asked, "op": "list"}).encode())
        keeper.receive(connection)
        asked += 1
    assert keeper.connections == []
    answered = 0
    while ours.recv(1 << 16):
        answered += 1
    ours.close()
    assert answered == asked - 1
