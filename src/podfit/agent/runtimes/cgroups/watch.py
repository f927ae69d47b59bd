"""Waits for notifications of the kernel: a container ran out of memory, or usage fell below a number of bytes.

v1 has eventfds for both: a threshold on memory.usage_in_bytes fires in either direction. v2 reports OOM kills through
inotify on memory.events; it does not report falling usage (memory.events counts limit hits, pressure triggers report
stalls), so two small files are polled with intervals that grow to a second.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from contextlib import suppress

from podfit.agent.runtimes.cgroups import Cgroups
from podfit.agent.runtimes.cgroups.files import Vanished, read_table
from podfit.kit.files import inotify as kernel

FIRST_LOOK_S, LONGEST_LOOK_S = 0.02, 1.0
SAFETY_LOOK_S = 2.0
FULL_LOOK_S = 0.02
"""v1 checks thresholds once in about 128 page events: a smaller drop may go unnoticed."""


class OomWatch:
    """Calls back with the container's id whenever its group's count of kills has grown."""

    def __init__(self, cgroups: Cgroups, on_oom: Callable[[str], None]) -> None:
        self._cgroups, self._on_oom = cgroups, on_oom
        self._eventfds: dict[str, int] = {}
        self._inotify = -1
        self._watches: dict[int, str] = {}
        self._files: dict[str, tuple[str, int]] = {}

    def add(self, container_id: str, group: str) -> None:
        if container_id in self._files:
            return
        file = self._cgroups.oom_file(group)
        self._files[container_id] = file, read_table(file).get("oom_kill", 0)
        event = self._cgroups.oom_eventfd(group)
        if event is not None:
            self._eventfds[container_id] = event
            asyncio.get_running_loop().add_reader(event, self._fired, container_id)
        elif self._cgroups.version == 2:
            self._watch_file(container_id, file)

    def _watch_file(self, container_id: str, file: str) -> None:
        if self._inotify < 0:
            self._inotify = kernel.inotify_init()
            asyncio.get_running_loop().add_reader(self._inotify, self._modified)
        with suppress(OSError):
            self._watches[kernel.inotify_add_watch(self._inotify, file, kernel.IN_MODIFY)] = container_id

    def remove(self, container_id: str) -> None:
        self._files.pop(container_id, None)
        event = self._eventfds.pop(container_id, None)
        if event is not None:
            asyncio.get_running_loop().remove_reader(event)
            os.close(event)
        for watch, owner in list(self._watches.items()):
            if owner == container_id:
                kernel.inotify_rm_watch(self._inotify, watch)
                del self._watches[watch]

    def close(self) -> None:
        for container_id in list(self._files):
            self.remove(container_id)
        if self._inotify >= 0:
            asyncio.get_running_loop().remove_reader(self._inotify)
            os.close(self._inotify)
            self._inotify = -1

    def _fired(self, container_id: str) -> None:
        event = self._eventfds.get(container_id)
        if event is not None:
            with suppress(BlockingIOError):
                os.eventfd_read(event)
            self._check(container_id)

    def _modified(self) -> None:
        try:
            data = os.read(self._inotify, 65536)
        except BlockingIOError:
            return
        while len(data) >= 16:
            watch, _, _, length = struct.unpack_from("iIII", data)
            data = data[16 + length :]
            container_id = self._watches.get(watch)
            if container_id is not None:
                self._check(container_id)

    def _check(self, container_id: str) -> None:
        file, before = self._files[container_id]
        kills = read_table(file).get("oom_kill", 0)
        if kills > before:
            self._files[container_id] = file, kills
            self._on_oom(container_id)
        elif self._eventfds.get(container_id) is not None and kills == before and os.path.exists(file):
            # v1's eventfd fires when the group runs out of memory, a moment before the kill is counted.
            asyncio.get_running_loop().call_later(0.01, self._check_again, container_id)

    def _check_again(self, container_id: str) -> None:
        if container_id in self._files:
            file, before = self._files[container_id]
            kills = read_table(file).get("oom_kill", 0)
            if kills > before:
                self._files[container_id] = file, kills
                self._on_oom(container_id)


async def memory_below(cgroups: Cgroups, group: str, threshold: int) -> None:
    event = cgroups.usage_eventfd(group, threshold)
    pause = FIRST_LOOK_S
    try:
        while cgroups.held_memory(group) >= threshold:
            if event is not None:
                await _readable(event, SAFETY_LOOK_S)
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_LOOK_S)
    finally:
        if event is not None:
            os.close(event)


async def memory_above(cgroups: Cgroups, group: str, threshold: int) -> None:
    """Returns once usage is above the threshold. v1's eventfd signals the crossing; on v2 memory.events does, if the
    group is throttled at the threshold. Page cache does not count: while it fills the group, two small files are read
    every few milliseconds."""
    eventfd = cgroups.usage_eventfd(group, threshold)
    inotify = -1 if eventfd is not None else kernel.inotify_init()
    try:
        if inotify >= 0:
            with suppress(OSError):
                kernel.inotify_add_watch(inotify, cgroups.oom_file(group), kernel.IN_MODIFY)
        while cgroups.held_memory(group) < threshold:
            full = cgroups.usage(group).memory_bytes >= threshold
            await _readable(eventfd if eventfd is not None else inotify, FULL_LOOK_S if full else SAFETY_LOOK_S)
    except FileNotFoundError as error:
        raise Vanished(f"cgroup {group} is gone") from error
    finally:
        os.close(eventfd if eventfd is not None else inotify)


async def _readable(descriptor: int, timeout_s: float) -> None:
    """Waits for an eventfd or an inotify descriptor; its value is read and discarded."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        async with asyncio.timeout(timeout_s):
            await ready.wait()
        with suppress(BlockingIOError):
            os.read(descriptor, 65536)
    except TimeoutError:
        return
    finally:
        loop.remove_reader(descriptor)
