"""Containers that ended: their exits in the story, and their termination messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.unit.agent.lab import Lab, pod

from podfit.agent.containers.exits import collect_messages, record_exits
from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.pods.observe import Snapshot
from podfit.agent.runtimes.values import EXITED, ContainerState, PodState


def ended(**more: Any) -> ContainerState:
    return ContainerState("id", "c", 0, EXITED, "i", "i", 0.0, **{"exit_code": 1, "reason": "Error", **more})


async def snapshot(lab: Lab, last: ContainerState) -> Snapshot:
    observed = await lab.observed(await lab.run())
    return replace(observed.snapshot, seen={"c": Seen("c", last)})


async def test_an_exit_is_in_the_story_once(lab: Lab) -> None:
    seen = await snapshot(lab, ended())
    record = lab.records["u"]
    record_exits(record, seen)
    record_exits(record, seen)
    assert [entry.what for entry in record.story].count("exited") == 1
    assert record.ooms == {}


async def test_an_oom_kill_names_the_limit_that_was_in_force(lab: Lab) -> None:
    seen = await snapshot(lab, ended(reason="OOMKilled"))
    record = lab.records["u"]
    record_exits(record, seen)
    (entry,) = [entry for entry in record.story if entry.what == "OOM-killed"]
    assert entry.numbers["memory_limit"] == "64Mi" and record.ooms == {"c": 1}


async def messages(lab: Lab, policy: str, last: ContainerState, text: str, logged: str) -> str:
    body = pod()
    body["spec"]["containers"][0]["terminationMessagePolicy"] = policy
    record, maker = lab.record(body), lab.built.furniture.maker
    file, log = maker.message_file(record, "c", 0), maker.log_folder(record) / "c" / "0.log"
    for path, content in ((file, text), (log, logged)):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(content)
    observed = await lab.observed(await lab.run(pod("other")))
    assert observed.snapshot.state is not None
    state: PodState = replace(observed.snapshot.state, containers=(last,))
    collect_messages(record, state, maker)
    return record.messages["id"]


async def test_a_message_is_read_from_its_file(lab: Lab) -> None:
    assert await messages(lab, "File", ended(), "bye", "t stdout F logged\n") == "bye"


async def test_a_failed_container_without_a_message_falls_back_to_its_log(lab: Lab) -> None:
    assert await messages(lab, "FallbackToLogsOnError", ended(), "", "t stdout F one\nt stderr F two\n") == "one\ntwo\n"


async def test_a_last_line_without_an_end_stays_without_one(lab: Lab) -> None:
    log = "t stdout F one\nt stdout P tw\nt stdout P o\n"
    assert await messages(lab, "FallbackToLogsOnError", ended(), "", log) == "one\ntwo"


async def test_a_container_that_succeeded_has_no_message_from_its_log(lab: Lab) -> None:
    assert await messages(lab, "FallbackToLogsOnError", ended(exit_code=0), "", "t stdout F one\n") == ""
