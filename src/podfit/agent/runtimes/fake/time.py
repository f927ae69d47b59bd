"""Events of the fake machine: programs exit, print and run out of memory, and waiters are resumed.

One timer, asleep until the next event, and none if there is none. Every read or change first calls `settle` or
`advance`, so an observer never sees an outdated state.
"""

from __future__ import annotations

import asyncio
import heapq
import math

from podfit.agent.runtimes.fake.node import FakeContainer, FakeNodeState, finish
from podfit.agent.runtimes.fake.streams import FakeStream, write_log
from podfit.agent.runtimes.values import RUNNING, Limits, NotFound, RuntimeEvent
from podfit.kit.clock import Clock

POD_LOOK_S = 1.0
"""The crossing of a sum of curves cannot be computed: a pod's usage is polled at this interval while awaited."""


class FakeTime:
    def __init__(self, clock: Clock, state: FakeNodeState) -> None:
        self.clock, self.state = clock, state
        self.events: asyncio.Queue[RuntimeEvent] = asyncio.Queue()
        self.streams: dict[str, list[FakeStream]] = {}
        self._ends: dict[str, asyncio.Event] = {}
        self._due: list[tuple[float, str]] = []
        """A heap of (when, container id); an entry is a time to check, not a certain event."""
        self._queued: dict[str, float] = {}
        self._waits: list[tuple[str, str, int, asyncio.Future[None]]] = []
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = math.inf

    def open(self) -> None:
        self.state.owner = self
        self.settle(list(self.state.containers.values()))

    def close(self) -> None:
        if self.state.owner is self:
            self.state.owner = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, math.inf

    def settle(self, containers: list[FakeContainer]) -> None:
        """Called after a change of these containers: processes due events, and sets the timer to the next one."""
        now = self.clock.now()
        for container in containers:
            due = self.advance(container, now)
            if due != math.inf and self._queued.get(container.id) != due:
                self._queued[container.id] = due
                heapq.heappush(self._due, (due, container.id))
        self._wake_waits()
        self._set_timer()

    def advance(self, container: FakeContainer, now: float) -> float:
        """Processes all due events, and returns the time of the next one."""
        if container.state != RUNNING:
            return math.inf
        output = container.program.output
        if container.said < len(output):
            for piece in write_log(container, now - container.started_at):
                for listener in self.streams.get(container.id, ()):
                    listener.feed(*piece)
        dry, end = self._dry_at(container, now), container.started_at + container.program.runs_s
        if dry <= min(now, end):
            container.oom_kills += 1
            self.events.put_nowait(RuntimeEvent("oom", container.pod_uid, container.id))
            self.end(container, dry, 137, "OOMKilled")
            return math.inf
        if end <= now:
            code = container.program.code
            self.end(container, end, code, "Completed" if code == 0 else "Error")
            return math.inf
        speaks = container.started_at + output[container.said][0] if container.said < len(output) else math.inf
        return min(end, speaks, dry)

    def account(self, container: FakeContainer, now: float) -> None:
        container.account(now, self._pod_limits(container))

    def end(self, container: FakeContainer, at: float, code: int, reason: str) -> None:
        finish(container, at, code, reason, self._pod_limits(container))
        for listener in self.streams.pop(container.id, ()):
            listener.finish(code)
        ended = self._ends.pop(container.id, None)
        if ended is not None:
            ended.set()
        self.events.put_nowait(RuntimeEvent("exited", container.pod_uid, container.id))
        self._wake_waits()

    async def ended_within(self, container_id: str, seconds: float) -> None:
        """Waits until the container exits or the time is over, by the runtime's clock: under a fake clock the grace
        period ends when the test advances it."""
        event = self._ends.setdefault(container_id, asyncio.Event())
        ended, grace = asyncio.ensure_future(event.wait()), asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait({ended, grace}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            grace.cancel()

    async def memory_below(self, uid: str, container_id: str, threshold: int) -> None:
        if self._memory(uid, container_id) < threshold:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (uid, container_id, threshold, done)
        self._waits.append(entry)
        self._set_timer()
        try:
            await done
        finally:
            self._waits.remove(entry)

    async def memory_above(self, uid: str, container_id: str, threshold: int) -> None:
        """Waits by the load's curve, and checks periodically, because the curve may be changed."""
        while self._memory(uid, container_id) < threshold:
            container = self.state.containers.get(container_id)
            if container is None or container.state != RUNNING:
                raise NotFound(f"container {container_id} does not run")
            now = self.clock.now()
            above = container.memory.first_above(float(threshold) - 1.0, max(0.0, now - container.started_at))
            due = math.inf if above is None else container.started_at + above - now
            await self.clock.sleep(min(max(due, 0.001), POD_LOOK_S))

    # when

    def _dry_at(self, container: FakeContainer, now: float) -> float:
        """The time at which a container runs out of memory by its own curve; usage of the rest of the pod is assumed to
        be constant."""
        pod = self.state.pods.get(container.pod_uid)
        bound = container.limits.memory_bytes
        if pod is not None and pod.limits.memory_bytes is not None:
            others = 0
            for item in pod.containers.values():
                if item is not container:
                    others += item.memory_at(now)
            left = max(0, pod.limits.memory_bytes - others)
            bound = left if bound is None else min(bound, left)
        if bound is None:
            return math.inf
        after = container.memory.first_above(float(bound), max(container.seen_at - container.started_at, 0.0))
        return math.inf if after is None else container.started_at + after

    def _wait_due(self, container_id: str, threshold: int) -> float:
        now = self.clock.now()
        container = self.state.containers.get(container_id)
        if container is None or container.state != RUNNING:
            return now + POD_LOOK_S
        below = container.memory.first_below(float(threshold), now - container.started_at)
        return math.inf if below is None else container.started_at + below

    def _wake_waits(self) -> None:
        for uid, container_id, threshold, done in self._waits:
            if not done.done() and self._memory(uid, container_id) < threshold:
                done.set_result(None)

    def _memory(self, uid: str, container_id: str) -> int:
        holder = self.state.containers.get(container_id) if container_id else self.state.pods.get(uid)
        return holder.memory_at(self.clock.now()) if holder is not None else 0

    def _pod_limits(self, container: FakeContainer) -> Limits:
        pod = self.state.pods.get(container.pod_uid)
        return pod.limits if pod is not None else Limits()

    # the timer

    def _set_timer(self) -> None:
        due = self._due[0][0] if self._due else math.inf
        for wait in self._waits:
            due = min(due, self._wait_due(wait[1], wait[2]))
        if self.state.owner is not self or due == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, due
        if due != math.inf:
            self._timer = asyncio.get_running_loop().create_task(self._sleep_until(due))

    async def _sleep_until(self, due: float) -> None:
        await self.clock.sleep(max(0.0, due - self.clock.now()))
        self._timer, self._timer_at = None, math.inf
        if self.state.owner is not self:
            # Another runtime has taken over the machine, as after a crash: its timer is the one that counts.
            return
        now, ripe = self.clock.now(), set[str]()
        while self._due and self._due[0][0] <= now:
            _, container_id = heapq.heappop(self._due)
            self._queued.pop(container_id, None)
            ripe.add(container_id)
        self.settle([self.state.containers[cid] for cid in sorted(ripe) if cid in self.state.containers])
