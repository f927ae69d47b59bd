"""The phase that observes a pod."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.phases.observe import observe
from podfit.reconcile.result import DONE


async def test_the_snapshot_is_set_and_exits_are_in_the_story(lab: Lab) -> None:
    record = await lab.run()
    (state,) = await lab.runtime.pods()
    await lab.runtime.stop_container(state.containers[0].id, 0.0)
    pod = lab.context(record)
    assert await observe(pod) == DONE
    assert pod.snapshot.running == {} and pod.snapshot.seen["c"].exited
    assert "exited" in [chapter.what for chapter in record.story]
