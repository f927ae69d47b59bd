"""Lists what a stopped component leaves on the machine, and removes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from podfit.cli.printing.output import note

if TYPE_CHECKING:
    from podfit.agent.agent import Agent


async def note_pods_left(agents: Iterable[Agent], command: str, option: str) -> None:
    """`option` selects the cluster in `podfit down`.

    Called after the agents stopped: pods that they stopped are not counted, nor are simulated ones, which end with the
    process."""
    from podfit.agent.runtimes.base import running_pods

    left = [pod for agent in agents if not agent.runtime.in_memory for pod in await running_pods(agent.runtime)]
    if left:
        pods = "1 pod keeps" if len(left) == 1 else f"{len(left)} pods keep"
        note(f"{pods} running: `podfit down {option}` ends what is left, `{command} --stop-pods` ends pods on exit")
