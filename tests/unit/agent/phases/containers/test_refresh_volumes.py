"""The phase that updates mounted files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.agent.lab import Lab, pod

from podfit.agent.furnish.volumes.volumes import BadVolume, Volumes
from podfit.agent.phases.containers.refresh_volumes import refresh_volumes
from podfit.agent.phases.context import PodContext
from podfit.reconcile.result import DONE, Requeue


async def mounted(tmp_path: Path, on_disk: bool = True) -> tuple[Lab, PodContext]:
    lab = Lab(tmp_path)
    found = await lab.observed(await lab.run(pod(volumes=[{"name": "v", "emptyDir": {}}])))
    object.__setattr__(lab.core.config, "on_disk", on_disk)
    return lab, found


async def test_files_that_are_due_are_written_and_requested_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, found = await mounted(tmp_path)
    due, written = [0.0, 60.0], list[object]()

    async def prepare(self: Volumes, sized: object, ips: object) -> None:
        written.append(sized)

    monkeypatch.setattr(Volumes, "due_s", lambda self, sized, ips: due.pop(0))
    monkeypatch.setattr(Volumes, "prepare", prepare)
    assert await refresh_volumes(found) == Requeue(60.0, "mounted files are due for a refresh")
    assert len(written) == 1
    await lab.stop()


async def test_a_source_that_is_gone_is_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare(self: Volumes, sized: object, ips: object) -> None:
        raise BadVolume(["no such Secret"])

    lab, found = await mounted(tmp_path)
    monkeypatch.setattr(Volumes, "due_s", lambda self, sized, ips: 0.0)
    monkeypatch.setattr(Volumes, "prepare", prepare)
    await refresh_volumes(found)
    assert ("FailedMount", "no such Secret") in lab.events.kept
    await lab.stop()


async def test_a_simulated_node_has_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, found = await mounted(tmp_path, on_disk=False)
    monkeypatch.setattr(Volumes, "due_s", lambda self, sized, ips: 5.0)
    assert await refresh_volumes(found) == DONE
    await lab.stop()
