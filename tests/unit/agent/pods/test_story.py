"""A pod's story: each transition once, bounded, in order."""

from __future__ import annotations

from podfit.agent.pods.story import KEPT, Story
from podfit.kit.clock import FakeClock


async def test_a_repeated_message_is_reported_once_until_another_one_appears() -> None:
    clock = FakeClock(0.0)
    story = Story(clock)
    for _ in range(3):
        story.add("not started", "no such image", container="c")
        await clock.advance(1.0)
    story.add("not started", "no such image", container="d")
    story.add("not started", "no such image", container="c")
    assert [(item.at, item.numbers["container"]) for item in story] == [(0.0, "c"), (3.0, "d"), (3.0, "c")]


def test_the_oldest_go_first() -> None:
    story = Story(FakeClock())
    for number in range(KEPT + 5):
        story.add("resized", generation=number)
    assert [item.numbers["generation"] for item in story] == list(range(5, KEPT + 5))
