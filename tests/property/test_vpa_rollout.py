"""Rolling out a changed policy: how many pods are in progress at a time, whatever state they are in."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.model.changing.rolling import ROLLING, SIZED_UNDER, at_once, note_policy, policy_digest, sized_under
from podfit.vpa.model.times import to_rfc3339
from podfit.vpa.updater.decide.pacing.rollout import Rollout

NOW, SETTLE = 1_700_000_000.0, 60.0
states = st.tuples(
    st.sampled_from(["", "old", "new", "new since"]),
    st.booleans(),
    st.integers(0, 200),
    st.sampled_from(["", "OOMKilled", "Error"]),
)


def vpa(text: str | None, **policy: Any) -> dict[str, Any]:
    notes = {ROLLING: text} if text is not None else {}
    spec = {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}, "resourcePolicy": policy}
    return {"metadata": {"name": "web", "annotations": notes}, "spec": spec}


def pod(name: str, state: tuple[str, bool, int, str], digest: str) -> dict[str, Any]:
    under, ready, since, ended = state
    at = to_rfc3339(NOW - since)
    notes = {
        "": {},
        "old": {SIZED_UNDER: "other"},
        "new": {SIZED_UNDER: digest},
        "new since": {SIZED_UNDER: f"{digest} {at}"},
    }
    status: dict[str, Any] = {"name": "c", "state": {"running": {}}}
    if ended:
        status["lastState"] = {"terminated": {"reason": ended, "exitCode": 137, "finishedAt": to_rfc3339(NOW)}}
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": at}]
    return {
        "metadata": {"name": name, "annotations": notes[under]},
        "status": {"conditions": conditions, "containerStatuses": [status]},
    }


@given(st.lists(states, max_size=8), st.sampled_from(["1", "2", "50%", "nonsense"]), st.integers(0, 2))
def test_no_more_pods_than_allowed_are_under_way_and_a_failed_one_stops_the_rest(
    found: list[Any], text: str, awaited: int
) -> None:
    owner = vpa(text)
    digest = policy_digest(owner)
    pods = [pod(f"p{number}", state, digest) for number, state in enumerate(found)]
    rollout = Rollout(owner, pods, NOW, SETTLE, awaited)
    new = [(item, state) for item, state in zip(pods, found, strict=True) if state[0].startswith("new")]
    failed = [item for item, (under, _, since, ended) in new if ended and (under == "new" or since > 0)]
    unsettled = [item for item, (_, ready, since, _) in new if not ready or since < SETTLE]
    begun = 0
    for item, state in zip(pods, found, strict=True):
        waits = rollout.wait(item, raises=False)
        if state[0].startswith("new") or state[3] == "OOMKilled":
            assert waits is None, "it has the policy, or is in need"
            continue
        if failed:
            assert waits is not None and waits.reason == "RolloutPaused"
        elif len(unsettled) + awaited + begun >= rollout.most:
            assert waits is not None and waits.reason == "RollingOut"
        else:
            assert waits is None
            rollout.changed(item)
            begun += 1
    assert begun == 0 or len(unsettled) + awaited + begun <= rollout.most


@given(st.lists(states, max_size=8))
def test_without_the_annotation_no_pod_waits_and_nothing_is_recorded(found: list[Any]) -> None:
    owner = vpa(None)
    pods = [pod(f"p{number}", state, policy_digest(owner)) for number, state in enumerate(found)]
    assert all(Rollout(owner, pods, NOW, SETTLE).wait(candidate, raises=False) is None for candidate in pods)
    assert note_policy(owner) == []


@given(st.integers(0, 300), st.integers(1, 50))
def test_a_part_of_the_pods_is_at_least_one_and_never_more_than_all(percent: int, pods: int) -> None:
    assert 1 <= at_once(vpa(f"{percent}%"), pods) <= pods


def test_a_pod_says_what_it_was_sized_under_and_since_when() -> None:
    owner = vpa("1")
    [admitted], [resized] = note_policy(owner), note_policy(owner, NOW)
    assert sized_under({"metadata": {"annotations": {SIZED_UNDER: resized["value"]}}}) == (policy_digest(owner), NOW)
    assert sized_under({"metadata": {"annotations": {SIZED_UNDER: admitted["value"]}}})[0] == policy_digest(owner)
    assert policy_digest(owner) != policy_digest(vpa("1", containerPolicies=[{"containerName": "*"}]))
