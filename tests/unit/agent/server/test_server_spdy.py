"""SPDY sessions: streams in, streams out, and clients that misbehave."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.streaming import spdy
from podfit.streaming.remote import ERROR, STDIN, STDOUT
from podfit.streaming.spdy import FIN, Blocks, SpdyError, SpdySession, SpdyStream
from podfit.streaming.spdy_dictionary import DICTIONARY
from podfit.streaming.tunnels import SpdyEnd, TunnelForward

PATIENCE_S = 10.0


class Pipe:
    """A connection whose other end is the test: it writes frames and reads them."""

    def __init__(self) -> None:
        self.inward: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()
        self._blocks = Blocks()
        self._frames: asyncio.Queue[tuple[int, int, bytes]] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self.inward.get()

    async def write(self, data: bytes) -> None:
        word, rest = struct.unpack_from(">II", data)
        self._frames.put_nowait((word, rest >> 24, data[8:]))

    async def close(self) -> None:
        self.closed.set()

    # the client's side
    def open(self, number: int, flags: int = 0, **headers: str) -> None:
        body = struct.pack(">IIBB", number, 0, 0, 0) + self._blocks.pack(headers)
        self.inward.put_nowait(spdy.control(spdy.SYN_STREAM, body, flags))

    def say(self, number: int, data: bytes, flags: int = 0) -> None:
        self.inward.put_nowait(spdy.data_frame(number, data, flags))

    def leave(self) -> None:
        self.inward.put_nowait(b"")

    async def frame(self) -> tuple[str, int, bytes]:
        """(kind, stream, data); `fin` for the end of a stream."""
        word, flags, body = await asyncio.wait_for(self._frames.get(), PATIENCE_S)
        if not word >> 31:
            return ("fin" if flags & FIN else "data"), word, body
        names = {spdy.SYN_REPLY: "reply", spdy.RST_STREAM: "reset", spdy.PING: "ping", spdy.GOAWAY: "goaway"}
        return names[word & 0xFFFF], int.from_bytes(body[:4], "big"), body[4:]


def test_the_dictionary_is_the_one_of_the_draft() -> None:
    assert len(DICTIONARY) == 1423
    assert zlib.adler32(DICTIONARY) == 0xE3C6A7C2


words = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=20)


@given(st.lists(st.dictionaries(words.map(str.lower), words, max_size=5), max_size=5))
def test_header_blocks_share_a_history_and_are_decompressed_unchanged(blocks: list[dict[str, str]]) -> None:
    one, other = Blocks(), Blocks()
    for headers in blocks:
        assert other.open(one.pack(headers)) == headers


class Session:
    def __init__(self, welcome: bool = True) -> None:
        self.pipe = Pipe()
        self.streams: asyncio.Queue[SpdyStream] = asyncio.Queue()
        self.session = SpdySession(self.pipe, self._accept)
        self._welcome = welcome
        self.task = asyncio.ensure_future(self.session.run())

    def _accept(self, stream: SpdyStream) -> bool:
        self.streams.put_nowait(stream)
        return self._welcome

    async def stream(self) -> SpdyStream:
        return await asyncio.wait_for(self.streams.get(), PATIENCE_S)

    async def over(self) -> None:
        await asyncio.wait_for(self.task, PATIENCE_S)


async def test_a_stream_carries_bytes_both_ways_and_closes_by_halves() -> None:
    one = Session()
    one.pipe.open(1, streamtype="data")
    stream = await one.stream()
    assert stream.headers == {"streamtype": "data"}
    assert (await one.pipe.frame())[:2] == ("reply", 1)
    one.pipe.say(1, b"hello")
    one.pipe.say(1, b"", FIN)
    assert await stream.read() == b"hello"
    assert await stream.read() == b""
    assert await stream.read() == b""
    await stream.write(b"still here")
    assert await one.pipe.frame() == ("data", 1, b"still here")
    await stream.close()
    assert await one.pipe.frame() == ("fin", 1, b"")
    one.pipe.leave()
    await one.over()


async def test_frames_may_arrive_in_any_pieces() -> None:
    one = Session()
    one.pipe.open(1)
    whole = one.pipe.inward.get_nowait() + spdy.data_frame(1, b"x" * 1000, FIN)
    for at in range(0, len(whole), 7):
        one.pipe.inward.put_nowait(whole[at : at + 7])
    stream = await one.stream()
    assert await stream.read() == b"x" * 1000
    assert await stream.read() == b""
    one.pipe.leave()
    await one.over()


async def test_pings_are_answered() -> None:
    one = Session()
    one.pipe.inward.put_nowait(spdy.control(spdy.PING, struct.pack(">I", 7)))
    assert await one.pipe.frame() == ("ping", 7, b"")
    one.pipe.inward.put_nowait(spdy.control(spdy.GOAWAY, struct.pack(">II", 0, 0)))
    await one.over()


async def test_a_stream_that_is_not_welcome_is_reset() -> None:
    one = Session(welcome=False)
    one.pipe.open(1)
    assert (await one.pipe.frame())[:2] == ("reset", 1)
    one.pipe.leave()
    await one.over()


@pytest.mark.parametrize("number", [2, 1])
async def test_stream_numbers_must_be_odd_and_grow(number: int) -> None:
    one = Session()
    one.pipe.open(1)
    assert (await one.pipe.frame())[0] == "reply"
    one.pipe.open(number)
    assert (await one.pipe.frame())[:2] == ("reset", number)
    one.pipe.leave()
    await one.over()


async def test_a_reset_ends_reading_and_writing() -> None:
    one = Session()
    one.pipe.open(1)
    stream = await one.stream()
    one.pipe.inward.put_nowait(spdy.control(spdy.RST_STREAM, struct.pack(">II", 1, 5)))
    assert await stream.read() == b""
    with pytest.raises(ConnectionResetError):
        await stream.write(b"too late")
    one.pipe.leave()
    await one.over()


async def test_an_invalid_spdy_frame_ends_the_session() -> None:
    one = Session()
    one.pipe.inward.put_nowait(b"\xffGET / HTTP/1.1\r\n" + b"\r\n" * 100)
    one.pipe.inward.put_nowait(struct.pack(">HHI", 0x8002, 1, 0))
    with pytest.raises(SpdyError):
        await one.over()


async def test_a_reader_that_left_does_not_block_the_others() -> None:
    one = Session()
    one.pipe.open(1)
    one.pipe.open(3)
    first, second = await one.stream(), await one.stream()
    for _ in range(500):
        one.pipe.say(1, b"nobody reads this")
    one.pipe.say(3, b"but this")
    one.session.forget(first)
    assert await asyncio.wait_for(second.read(), PATIENCE_S) == b"but this"
    one.pipe.leave()
    await one.over()


class Echo:
    """A port in the pod that repeats everything it receives twice."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False

    async def read(self) -> bytes:
        return await self._queue.get()

    async def write(self, data: bytes) -> None:
        self._queue.put_nowait(data + data)

    async def close_write(self) -> None:
        self._queue.put_nowait(b"")

    async def close(self) -> None:
        self.closed = True


async def test_each_pair_of_streams_is_a_connection_of_its_own() -> None:
    made: list[Echo] = []

    async def connect(port: int) -> Echo:
        if port != 80:
            raise ConnectionRefusedError("nothing listens")
        made.append(Echo())
        return made[-1]

    pipe = Pipe()
    task = asyncio.ensure_future(TunnelForward(pipe, connect).run())
    pipe.open(1, streamtype="error", port="80", requestid="0")
    pipe.open(3, streamtype="data", port="80", requestid="0")
    pipe.open(5, streamtype="error", port="81", requestid="1")
    pipe.open(7, streamtype="data", port="81", requestid="1")
    pipe.say(3, b"ab")
    frames = [await pipe.frame() for _ in range(8)]
    assert {frame[1] for frame in frames if frame[0] == "reply"} == {1, 3, 5, 7}
    assert ("data", 3, b"abab") in frames
    refusal = b"error forwarding port 81 to pod: nothing listens"
    assert ("data", 5, refusal) in frames
    assert {frame[1] for frame in frames if frame[0] == "fin"} == {5, 7}
    pipe.say(3, b"", FIN)
    assert {(await pipe.frame())[:2], (await pipe.frame())[:2]} == {("fin", 3), ("fin", 1)}
    assert [item.closed for item in made] == [True]
    pipe.leave()
    await asyncio.wait_for(task, PATIENCE_S)
    assert pipe.closed.is_set()


@pytest.mark.parametrize("headers", [{"streamtype": "data", "port": "80"}, {"streamtype": "error", "port": "0"}])
async def test_streams_without_their_partner_or_port_are_refused(headers: dict[str, str]) -> None:
    async def connect(port: int) -> Any:
        raise AssertionError("nobody may connect")

    pipe = Pipe()
    task = asyncio.ensure_future(TunnelForward(pipe, connect).run())
    pipe.open(1, **headers)
    assert (await pipe.frame())[0] == "reset"
    pipe.leave()
    await asyncio.wait_for(task, PATIENCE_S)


async def test_exec_over_spdy_waits_for_its_streams_and_ends_with_a_status() -> None:
    pipe = Pipe()
    end = SpdyEnd(pipe, frozenset((ERROR, STDIN, STDOUT)))
    opening = asyncio.ensure_future(end.open())
    pipe.open(1, streamtype="error")
    pipe.open(3, streamtype="stdin")
    assert not opening.done()
    pipe.open(5, streamtype="stdout")
    await asyncio.wait_for(opening, PATIENCE_S)
    pipe.say(3, b"in")
    pipe.say(3, b"", FIN)
    assert await end.receive() == (STDIN, b"in")
    assert await end.receive() == (STDIN, None)
    await end.send(STDOUT, b"out")
    await end.finish({"status": "Success"})
    frames = [await pipe.frame() for _ in range(8)]
    assert ("data", 5, b"out") in frames
    assert ("data", 1, b'{"status":"Success"}') in frames
    pipe.leave()
    assert await end.receive() is None
    await end.close()


async def test_the_backlog_of_a_slow_reader_is_bounded_in_bytes() -> None:
    session = Session()
    session.pipe.open(1)
    for _ in range(3):
        session.pipe.say(1, bytes(8 << 20))
    stream = await session.stream()
    size = len(await stream.read())
    # The first frame has not been sent completely, so the others are still pending.
    assert session.pipe.inward.qsize() == 2
    while size < 24 << 20:
        size += len(await asyncio.wait_for(stream.read(), PATIENCE_S))
    assert size == 24 << 20
    session.pipe.leave()
    await session.over()
