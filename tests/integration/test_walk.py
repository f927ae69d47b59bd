"""docs/architecture.md lists the files that a resize passes through, in order. This test compares the list with
a trace.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

import podfit
from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.client.rest import STRATEGIC

ROOT = Path(podfit.__file__).parent
PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
MOST_FILES, MOST_LINES = 40, 7000
ROUNDS = 3
"""A module that is not called in every round belongs to another loop (a lease, a heartbeat), not to a resize."""


def chapter(title: str) -> str:
    [found] = re.findall(rf"^##+ {title}\n(.*?)(?=^##|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(found)


def walk() -> list[str]:
    """The files of the numbered steps, in order."""
    steps = re.findall(r"^\d+\. .*(?:\n   .*)*", chapter("The walk"), re.MULTILINE)
    return [path for step in steps for path in re.findall(r"`([a-z_0-9/]+\.py)`", step)]


def groups() -> list[str]:
    """Folders and files that a resize passes through without a decision being made there."""
    rows = re.findall(r"^\| (`.*?) \|", chapter("Beside the walk"), re.MULTILINE)
    return [path for row in rows for path in re.findall(r"`([a-z_0-9/]+(?:/|\.py))`", row)]


def test_every_file_of_the_walk_exists_and_is_named_once() -> None:
    files = walk()
    assert files and len(files) == len(set(files))
    assert not [path for path in files if not (ROOT / path).is_file()]


def test_a_reader_follows_a_resize_in_forty_files_and_seven_thousand_lines() -> None:
    lines = {path: len((ROOT / path).read_text().splitlines()) for path in walk()}
    assert len(lines) <= MOST_FILES
    assert sum(lines.values()) <= MOST_LINES, f"{sum(lines.values())} lines"


def test_what_is_beside_the_walk_exists_and_has_a_reason() -> None:
    assert not [path for path in groups() if not (ROOT / path).exists()]
    rows = re.findall(r"^\| `.*?\| *(.*?) *\|$", chapter("Beside the walk"), re.MULTILINE)
    assert rows and all(len(reason.split()) > 3 for reason in rows)


class Trace:
    """The modules of podfit whose functions are called during the block."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self._root = f"{ROOT}{os.sep}"

    def __enter__(self) -> Trace:
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self._root):
            self.modules.add(frame.f_code.co_filename.removeprefix(self._root))


def size(cpu: int) -> Object:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{cpu}m"}}}]}}


def settled(pod: Object | None, generation: int) -> bool:
    status = (pod or {}).get("status") or {}
    resizing = [condition for condition in status.get("conditions") or () if condition["type"].startswith("PodResize")]
    return status.get("phase") == "Running" and status.get("observedGeneration") == generation and not resizing


async def traced_resize(folder: Path, **options: Any) -> set[str]:
    """The modules that each of some resizes enters, from the PATCH to the settled status."""
    async with Whole(folder, **options) as whole:
        client, rounds = whole.client, []
        meta = {"name": "p", "namespace": "default"}
        await client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()})
        await becomes(client, POD, "default", "p", lambda pod: settled(pod, 1))
        async with aclosing(client.watch(POD, "default")) as events:
            await anext(events)
            # The first resize fills caches.
            for generation in range(2, ROUNDS + 3):
                with Trace() as trace:
                    await client.patch(POD, "default", "p", size(100 + 10 * generation), "resize", STRATEGIC)
                    while not settled((await anext(events))[1], generation):
                        pass
                rounds.append(trace.modules)
        # Pods outlive their agent: none is left on the machine.
        await client.delete(POD, "default", "p", {"gracePeriodSeconds": 1})
        await becomes(client, POD, "default", "p", lambda pod: pod is None)
        return set.intersection(*rounds[1:])


def beyond(entered: set[str]) -> Iterator[str]:
    known, beside = set(walk()), groups()
    for path in sorted(entered - known):
        if not any(path == group or (group.endswith("/") and path.startswith(group)) for group in beside):
            yield path


async def test_a_resize_enters_no_module_that_the_walk_does_not_name_or_group(tmp_path: Path) -> None:
    assert not list(beyond(await traced_resize(tmp_path)))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: real processes in cgroups")
async def test_a_resize_to_the_kernel_enters_every_file_of_the_walk_and_no_other(tmp_path: Path) -> None:
    entered = await traced_resize(tmp_path, runtime="process", store="sqlite")
    assert not list(beyond(entered))
    kernel = {"agent/runtimes/cgroups/v1.py", "agent/runtimes/cgroups/v2.py"}
    assert entered & kernel
    assert not [path for path in walk() if path not in entered | kernel]
