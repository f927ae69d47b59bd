"""The reasons why containers wait."""

from __future__ import annotations

from podfit.agent.pods.waiting import WaitingReasons


def test_a_reason_is_cleared_only_if_it_is_the_one_meant() -> None:
    waiting = WaitingReasons()
    waiting.set("c", "ImagePullBackOff", "no")
    waiting.clear("c", "CrashLoopBackOff")
    assert waiting.get("c") == ("ImagePullBackOff", "no")
    waiting.clear("c", "ImagePullBackOff")
    assert waiting.get("c") is None and waiting.reason("c") == ""


def test_the_last_reason_counts() -> None:
    waiting = WaitingReasons()
    waiting.set("c", "a", "first")
    waiting.set("c", "b", "second")
    waiting.clear("d")
    assert waiting.reason("c") == "b"
    waiting.clear("c")
    assert waiting.reason("c") == ""
