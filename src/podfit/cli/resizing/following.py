"""Follows the resizes of several pods to their end, showing each step: bars in a terminal, lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.cli.printing.output import note, visible
from podfit.cli.resizing.shortages import shortage_of
from podfit.cli.resizing.stages import ResizeStage, bar, step_of
from podfit.client import Client
from podfit.client.transport import Unreachable

if TYPE_CHECKING:
    from rich.table import Table

Key = tuple[str, str]
GONE = ResizeStage("Pending", "Gone", "the pod was deleted")


class Followed:
    """The known state of each pod's resize."""

    def __init__(self, pods: Mapping[Key, Object]) -> None:
        self.pods = dict(pods)
        self.steps: dict[Key, ResizeStage] = {key: step_of(pod) for key, pod in pods.items()}

    def take(self, key: Key, pod: Object | None, shortage: str = "") -> bool:
        """Updates the state of a pod; returns whether its stage changed. `shortage`: what its node lacks."""
        if key not in self.steps:
            return False
        if pod is not None:
            if (pod["metadata"].get("generation") or 0) < (self.pods[key]["metadata"].get("generation") or 0):
                return False
            self.pods[key] = pod
        before, self.steps[key] = self.steps[key], GONE if pod is None else step_of(pod, shortage)
        return before != self.steps[key]

    @property
    def over(self) -> bool:
        return all(step.done or step.refused or step is GONE for step in self.steps.values())


class Show:
    """One line per step, for pipes and logs."""

    def __init__(self, followed: Followed) -> None:
        self._followed = followed

    def __enter__(self) -> Show:
        for key in self._followed.steps:
            self.changed(key)
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def changed(self, key: Key) -> None:
        note(f"pod/{key[1]}: {words(self._followed.steps[key])}")


class Bars(Show):
    """One bar per pod, redrawn in place."""

    def __enter__(self) -> Show:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(self._drawn(), console=Console(stderr=True), refresh_per_second=10)
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.update(self._drawn(), refresh=True)
        self._live.__exit__(None, None, None)

    def changed(self, key: Key) -> None:
        self._live.update(self._drawn())

    def _drawn(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        drawn = Table.grid(padding=(0, 2))
        for (_, name), step in self._followed.steps.items():
            color = "green" if step.done else "red" if step.refused else "yellow" if step.reason else "cyan"
            drawn.add_row(f"pod/{name}", Text(bar(step), style=color), Text(visible(words(step)), style=color))
        return drawn


def words(step: ResizeStage) -> str:
    if step.done:
        return step.why or "Actual"
    detail = f"{step.reason}: {step.why}" if step.reason and step.why else step.reason or step.why
    return f"{step.stage} ({detail})" if detail else step.stage


async def follow(client: Client, pods: Mapping[Key, Object], timeout_s: float) -> Followed:
    """Runs until every pod has its size or is finally rejected, or the timeout has passed."""
    followed = Followed(pods)
    show = Bars(followed) if sys.stderr.isatty() else Show(followed)
    with show:
        namespaces = {namespace for namespace, _ in pods}
        watching = [asyncio.create_task(_watch(client, namespace, followed, show)) for namespace in namespaces]
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await asyncio.gather(*watching)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
    return followed


async def _watch(client: Client, namespace: str, followed: Followed, show: Show) -> None:
    async def take(key: Key, pod: Object | None) -> None:
        shortage = await shortage_of(client, pod) if pod is not None and key in followed.steps else ""
        if followed.take(key, pod, shortage):
            show.changed(key)

    while not followed.over:
        listed = await client.list(POD, namespace)
        seen = {(namespace, pod["metadata"]["name"]): pod for pod in listed["items"]}
        for key in followed.steps:
            if key[0] == namespace:
                await take(key, seen.get(key))
        try:
            revision = listed["metadata"]["resourceVersion"]
            async with aclosing(client.watch(POD, namespace, resourceVersion=revision)) as events:
                while not followed.over:
                    kind, pod = await anext(events)
                    await take((namespace, pod["metadata"]["name"]), None if kind == "DELETED" else pod)
        except (StopAsyncIteration, ApiError, Unreachable):
            # The watch ended or its revision was compacted: list again, which also fails if the server is permanently
            # down.
            continue
