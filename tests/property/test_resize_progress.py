"""Every reader gets back the state of a resize that the agent reports."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.decide.resize.conditions import ResizeConditions
from podfit.api.resize.conditions import DEFERRED, INFEASIBLE
from podfit.api.resize.progress import InProgress, Pending, Settled, progress
from podfit.api.resize.verdicts import Deferred, Infeasible, Undecided

MESSAGES = st.text("abc 123", min_size=1, max_size=20)
GENERATIONS = st.integers(1, 5)
NOW = 1_700_000_000.0


def pod(conditions: ResizeConditions, generation: int, observed: int) -> dict[str, Any]:
    return {
        "metadata": {"generation": generation},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"observedGeneration": observed, "conditions": conditions.to_json()},
    }


@given(st.sampled_from((DEFERRED, INFEASIBLE)), MESSAGES, GENERATIONS, GENERATIONS)
def test_a_verdict_is_read_back_as_the_agent_gave_it_until_the_spec_changes(
    reason: str, message: str, judged: int, generation: int
) -> None:
    refused = ResizeConditions().refused(reason, message, judged, NOW)
    stands = progress(pod(refused, generation, judged))
    given_verdict = Deferred(message=message) if reason == DEFERRED else Infeasible(message=message)
    assert isinstance(stands, Pending)
    assert stands.verdict == (Undecided() if judged < generation else given_verdict)


@given(MESSAGES, GENERATIONS)
def test_an_error_is_read_back_and_gone_when_the_resize_is_completed(message: str, generation: int) -> None:
    granted = ResizeConditions().granted(generation, NOW)
    failing = granted.failed(message, generation, NOW)
    assert progress(pod(granted, generation, generation)) == InProgress(since="2023-11-14T22:13:20Z")
    stands = progress(pod(failing, generation, generation))
    assert isinstance(stands, InProgress) and stands.failing and stands.error == message
    assert progress(pod(failing.completed(), generation, generation)) == Settled()
