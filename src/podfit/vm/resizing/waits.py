"""Waits for libvirt's events about one VM."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from podfit.vm.machines.events import Event


class Waits:
    def __init__(self) -> None:
        self._followers: set[Callable[[Event], None]] = set()

    def on_event(self, event: Event) -> None:
        for follower in list(self._followers):
            follower(event)

    @contextmanager
    def following(self, uuid: str, *kinds: str) -> Iterator[EventQueue]:
        """Collects the VM's events of these kinds from now on: to be entered before the call that causes them."""
        on_event = EventQueue()

        def follower(event: Event) -> None:
            if event.uuid == uuid and event.kind in kinds:
                on_event.events.append(event)
                on_event.news.set()

        self._followers.add(follower)
        try:
            yield on_event
        finally:
            self._followers.discard(follower)


class EventQueue:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.news = asyncio.Event()

    async def wait(self, timeout_s: float) -> bool:
        """Waits until there is a new event; False if none arrived."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.news.wait()
                self.news.clear()
                return True
        return False
