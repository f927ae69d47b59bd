"""Watches grouped by prefix: which are notified, which are not even examined, and the cost of a slow reader."""

from __future__ import annotations

import asyncio

import pytest

from podfit.store.backend import Change, Lagging, Record
from podfit.store.fanout import Fanout, Feed


def change(key: str, revision: int = 2) -> Change:
    return Change(revision, key, Record(key, b"", revision, revision), None)


def test_a_change_reaches_exactly_the_prefixes_of_its_key() -> None:
    fanout = Fanout()
    feeds = {prefix: fanout.add(prefix, [], 10) for prefix in ("", "a", "a/", "a/b", "a/bc", "b", "a/b/c")}
    fanout.send(change("a/b"))
    assert {prefix for prefix, feed in feeds.items() if feed.next_nowait()} == {"", "a", "a/", "a/b"}


def test_watches_elsewhere_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    fanout, pushed = Fanout(), []
    for number in range(1000):
        fanout.add(f"pods/ns-{number:04}/", [], 10)
    push = Feed.push

    def counting(feed: Feed, entry: Change) -> bool:
        pushed.append(feed.prefix)
        return push(feed, entry)

    monkeypatch.setattr(Feed, "push", counting)
    fanout.send(change("pods/ns-0500/a"))
    assert pushed == ["pods/ns-0500/"]


def test_closing_the_last_watch_of_a_prefix_forgets_the_prefix() -> None:
    fanout = Fanout()
    one, two = fanout.add("a/", [], 10), fanout.add("a/", [], 10)
    one.close()
    one.close()
    assert len(fanout) == 1
    two.close()
    assert len(fanout) == 0
    fanout.send(change("a/b"))
    assert two.next_nowait() is None


async def test_an_overflowing_watch_leaves_and_keeps_nothing() -> None:
    fanout = Fanout()
    slow, quick = fanout.add("", [], 2), fanout.add("", [], 2)
    for revision in range(2, 6):
        fanout.send(change("a", revision))
        assert quick.next_nowait() == change("a", revision)
    assert len(fanout) == 1
    with pytest.raises(Lagging):
        await slow.next()


async def test_a_reader_cancelled_while_waiting_loses_no_change() -> None:
    fanout = Fanout()
    feed = fanout.add("", [], 5)
    waiting = asyncio.ensure_future(feed.next())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    fanout.send(change("a"))
    assert await feed.next() == change("a")


async def test_a_reader_cancelled_after_its_wake_up_loses_no_change() -> None:
    fanout = Fanout()
    feed = fanout.add("", [], 5)
    waiting = asyncio.ensure_future(feed.next())
    await asyncio.sleep(0)
    fanout.send(change("a"))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert feed.next_nowait() == change("a")


async def test_lost_history_ends_every_watch_with_lagging() -> None:
    fanout = Fanout()
    feeds = [fanout.add(prefix, [], 5) for prefix in ("", "a")]
    fanout.send(change("a"))
    fanout.overflow()
    assert len(fanout) == 0
    for feed in feeds:
        with pytest.raises(Lagging):
            await feed.next()
