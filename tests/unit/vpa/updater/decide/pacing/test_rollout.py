"""A changed policy reaches the pods of an autoscaler a few at a time."""

from __future__ import annotations

from typing import Any

from tests.support.autoscalers import DEFERRED, READY, START_S, oom, pod, vpa

from podfit.api.objects import Object
from podfit.vpa.model.changing.rolling import ROLLING, SIZED_UNDER, policy_digest
from podfit.vpa.model.objects.policy import CPU_STARVED
from podfit.vpa.updater.decide.pacing.rollout import Rollout

SETTLE_S = 60.0
SETTLED_S = START_S + SETTLE_S


def scaler(rolling: str | None = "1", **more: Any) -> Object:
    made = vpa(**more)
    made["metadata"]["annotations"] = {ROLLING: rolling} if rolling else {}
    return made


def sized(name: str, policy: str, **more: Any) -> Object:
    return pod(name, annotations={SIZED_UNDER: policy}, **more)


NEW = policy_digest(scaler())


def reason(owner: Object, pods: list[Object], obj: Object, raises: bool = False, now: float = SETTLED_S) -> str:
    waiting = Rollout(owner, pods, now, SETTLE_S).wait(obj, raises)
    return "" if waiting is None else waiting.reason


def test_a_pod_waits_until_the_one_before_it_has_been_ready_for_a_while() -> None:
    first, second = sized("first", NEW, conditions=[READY]), sized("second", "old", conditions=[READY])
    assert reason(scaler(), [first, second], second, now=SETTLED_S - 1) == "RollingOut"
    assert reason(scaler(), [first, second], second) == ""
    assert reason(scaler("2"), [first, second], second, now=SETTLED_S - 1) == ""


def test_a_pod_that_is_not_ready_or_still_resized_is_not_settled() -> None:
    second = sized("second", "old")
    for conditions in ([], [READY, DEFERRED]):
        first = sized("first", NEW, conditions=conditions)
        assert reason(scaler(), [first, second], second, now=SETTLED_S + 1e6) == "RollingOut"


def test_a_container_that_fails_under_the_new_policy_pauses_the_rollout() -> None:
    failed, second = sized("failed", NEW, conditions=[READY], statuses=[oom()]), sized("second", "old")
    waiting = Rollout(scaler("2"), [failed, second], SETTLED_S, SETTLE_S).wait(second, False)
    assert waiting is not None and waiting.reason == "RolloutPaused"
    assert waiting.message.startswith("container app of pod failed ended (OOMKilled) at 2026-01-01T00:00:10Z")


def test_a_killed_or_starved_pod_does_not_wait() -> None:
    first = sized("first", NEW)
    killed, starved = sized("killed", "old", statuses=[oom()]), sized("starved", "old")
    owner = scaler(status={"conditions": [{"type": CPU_STARVED, "status": "True"}]})
    assert reason(scaler(), [first, killed], killed) == ""
    assert reason(owner, [first, starved], starved, raises=True) == ""
    assert reason(owner, [first, starved], starved, raises=False) == "RollingOut"


def test_what_was_changed_in_this_pass_counts() -> None:
    pods = [sized(name, "old", conditions=[READY]) for name in ("a", "b")]
    rollout = Rollout(scaler(), pods, SETTLED_S, SETTLE_S)
    assert rollout.wait(pods[0], False) is None
    rollout.changed(pods[0])
    assert rollout.wait(pods[1], False) is not None


def test_without_the_annotation_no_pod_waits() -> None:
    pods = [sized("first", NEW), sized("second", "old")]
    assert reason(scaler(None), pods, pods[1]) == ""
