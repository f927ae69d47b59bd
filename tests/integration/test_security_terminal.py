"""podfit's output about objects whose texts contain terminal escapes (CVE-2021-25743)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.registry.kinds import POD, kind_named

ESCAPE = "\x1b[2J\x1b]0;owned\x07\x9b31m"


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        spec = pod_spec()
        spec["containers"][0]["command"] = ["sleep", "3600", ESCAPE]
        meta = {"name": "p", "annotations": {"note": ESCAPE}}
        await cluster.client.create(POD, {"metadata": meta, "spec": spec}, "default")
        pod = await becomes(
            cluster.client, POD, "default", "p", lambda obj: obj and obj["status"]["phase"] == "Running"
        )
        about = {"kind": "Pod", "namespace": "default", "name": "p", "uid": (pod or {})["metadata"]["uid"]}
        event = {"metadata": {"name": "e"}, "involvedObject": about, "reason": ESCAPE, "message": ESCAPE, "count": 1}
        await cluster.client.create(kind_named("Event"), {**event, "type": "Warning"}, "default")
        condition = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": ESCAPE}
        await cluster.client.patch(POD, "default", "p", {"status": {"conditions": [condition]}}, subresource="status")
        yield cluster


COMMANDS = (
    "describe pod p",
    "events",
    "events -o wide",
    "events -o json",
    "events -o yaml",
    "explain pod p",
    "top pods",
    "resize pod p --cpu 1e9\x1b[2J",
)


async def printed(command: str, kubeconfig: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("podfit"), *command.split(" "), "--kubeconfig", kubeconfig),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return (await process.communicate())[0].decode()


async def test_no_command_prints_an_escape_of_the_cluster(whole: Whole) -> None:
    for command in COMMANDS:
        reported = await printed(command, whole.up.kubeconfig)
        assert reported, command
        assert not set(reported) & {letter for letter in ESCAPE if not letter.isprintable()}, command
