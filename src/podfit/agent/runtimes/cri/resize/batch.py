"""Applies all changes of a resize at once: to the kernel first, in the order given, then one runtime update of each
container.

The runtime starts a program for every update, which takes longer than everything else of a resize. So the containers of
a pod are updated side by side, each once for CPU and memory, and the pass does not wait: the kernel has the values; the
answers are kept in `confirmations`. If the runtime refuses one of them, all are reverted in reverse order, in which
each step is as legal as it was forwards. The caller then makes the changes one by one, which shows which of them is
refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from podfit.agent.runtimes.confirmations import Confirmations
from podfit.agent.runtimes.cri.messages.amounts import merged, undo
from podfit.agent.runtimes.cri.resize.catchup import Ask, CatchUp, put_back
from podfit.agent.runtimes.cri.resize.quotas import write_pod
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.cri.state.records import Container, Pod
from podfit.agent.runtimes.values import LimitsChange, RuntimeFailure
from podfit.cri import CriError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Resize:
    pod: Pod
    containers: Mapping[str, Container]
    written: list[tuple[str, LimitsChange]] = field(default_factory=list)
    """Cgroups in the order in which they were written, each with the values to restore."""
    changes: dict[str, LimitsChange] = field(default_factory=dict)
    """The runtime's updates, by container; "" is the pod."""
    undone: dict[str, LimitsChange] = field(default_factory=dict)
    """The update that restores the runtime's previous values."""


class ResizeBatch:
    def __init__(
        self,
        inventory: Inventory,
        ask: Ask,
        notify_pod: Callable[[Pod, LimitsChange], Awaitable[None]],
        behind: CatchUp,
        confirmations: Confirmations,
    ) -> None:
        self._inventory, self._ask, self._notify_pod, self._behind = inventory, ask, notify_pod, behind
        self._confirmations = confirmations

    async def apply(self, uid: str, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        """Applies the changes. False if nothing changed: the kernel refused one of them, or a cgroup is not ours to
        write."""
        containers = {cid: self._inventory.container(cid) for cid, _ in changes if cid}
        resize = _Resize(self._inventory.pod(uid), containers)
        async with AsyncExitStack() as locks:
            for known in containers.values():
                await locks.enter_async_context(known.lock)
            if self._inventory.cgroups is None or not all(known.writable for known in containers.values()):
                return False
            if self._confirmations.outstanding(uid) or not await self._write(resize, changes):
                return False
            answer = self._inventory.tasks.start(self._confirm(resize, locks.pop_all()), f"cri-resize-{uid}")
            self._confirmations.begin(uid, answer, lambda: self._announce(uid))
        return True

    async def _write(self, resize: _Resize, changes: Sequence[tuple[str, LimitsChange]]) -> bool:
        cgroups = self._inventory.cgroups
        assert cgroups is not None
        try:
            for target, change in changes:
                group = resize.containers[target].group if target else resize.pod.group
                back = undo(change, cgroups.limits(group))
                if target:
                    cgroups.write(group, change)
                else:
                    await write_pod(cgroups, group, change)
                resize.written.append((group, back))
                resize.changes[target] = merged(resize.changes.get(target, LimitsChange()), change)
                resize.undone[target] = merged(back, resize.undone.get(target, LimitsChange()))
        except RuntimeFailure:
            self._restore(resize)
            return False
        return True

    def _restore(self, resize: _Resize) -> None:
        for group, back in reversed(resize.written):
            put_back(self._inventory, group, back)

    # --- the runtime's answers
    async def _confirm(self, resize: _Resize, locks: AsyncExitStack) -> None:
        uid = resize.pod.config.uid
        async with locks:
            if change := resize.changes.pop("", None):
                await self._notify_pod(resize.pod, change)
            answers = await asyncio.gather(*(self._accepts(resize, cid) for cid in resize.changes))
            accepted = dict(zip(resize.changes, answers, strict=True))
            if not all(accepted.values()):
                await self._revert(resize, [cid for cid, yes in accepted.items() if yes])
                self._confirmations.refuse(uid)

    def _announce(self, uid: str) -> None:
        self._inventory.emit("refused" if self._confirmations.refused(uid) else "confirmed", uid)

    async def _accepts(self, resize: _Resize, container_id: str) -> bool:
        known, change = resize.containers[container_id], resize.changes[container_id]
        try:
            await self._ask(known, self._behind.with_earlier(container_id, change))
        except CriError as error:
            if error.unreached:
                self._behind.later(known, change, resize.undone[container_id])
                return True
            if known.running:
                log.warning("container %s: the runtime refuses its resources: %s", container_id, error.words)
            return not known.running
        self._behind.done(container_id)
        return True

    async def _revert(self, resize: _Resize, accepted: list[str]) -> None:
        """Restores everything in the kernel, and in the runtime what it had accepted."""
        self._restore(resize)
        for container_id in accepted:
            known, change = resize.containers[container_id], resize.undone[container_id]
            try:
                await self._ask(known, self._behind.with_earlier(container_id, change))
                self._behind.done(container_id)
            except CriError as error:
                if error.unreached:
                    self._behind.later(known, change, LimitsChange())
                elif known.running:
                    log.warning(
                        ("container %s: the runtime did not restore its old resources: %s"), container_id, error.words
                    )
