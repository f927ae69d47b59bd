"""The next steps of a pod and its reports: fast paths agree with slow ones, and patches produce the intended status."""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.agent.decide.pod import lifecycle, status_changes
from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.decide.resize.conditions import merged
from podfit.agent.runtimes.values import CREATED, EXITED, RUNNING, ContainerState
from podfit.api.objects import Object
from podfit.api.patches import strategic
from podfit.api.schema import struct_of

# --- what comes next

STATES = st.sampled_from([RUNNING, RUNNING, EXITED, CREATED])


@st.composite
def seen_as(draw: st.DrawFn, name: str) -> Seen:
    if draw(st.integers(0, 5)) == 0:
        return Seen(name)
    state = draw(STATES)
    last = ContainerState(f"id-{name}", name, 0, state, "i", "i", 1.0, exit_code=draw(st.sampled_from([0, 1])))
    running = state == RUNNING
    return Seen(name, last, None, running, running and draw(st.booleans()))


@st.composite
def pods(draw: st.DrawFn) -> tuple[Object, dict[str, Seen]]:
    names = [f"c{number}" for number in range(draw(st.integers(0, 3)))]
    spec: Object = {"containers": [{"name": name} for name in names]}
    spec["restartPolicy"] = draw(st.sampled_from(["Always", "OnFailure", "Never"]))
    if draw(st.booleans()):
        spec["initContainers"] = [{"name": "i", **draw(st.sampled_from([{}, {"restartPolicy": "Always"}]))}]
        names.append("i")
    if draw(st.booleans()):
        spec["ephemeralContainers"] = [{"name": "e"}]
        names.append("e")
    return {"spec": spec}, {name: draw(seen_as(name)) for name in names}


@settings(max_examples=300)
@given(pods(), st.sets(st.sampled_from(["c0", "c1", "i"])), st.booleans())
def test_a_pod_that_simply_runs_is_not_an_exception(
    case: tuple[Object, dict[str, Seen]], wanted: set[str], ending: bool
) -> None:
    pod, seen = case
    again = frozenset(wanted)
    quick = (
        lifecycle.next_steps(pod, seen, lambda obj: 0.0, again),
        lifecycle.phase(pod, seen, ending, again),
    )
    with mock.patch.object(lifecycle, "_all_run", lambda containers: False):
        assert quick == (
            lifecycle.next_steps(pod, seen, lambda obj: 0.0, again),
            lifecycle.phase(pod, seen, ending, again),
        )


# --- what is told

TIMES = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])
NOW = "2026-02-01T00:00:00Z"


def conditions(timed: bool) -> st.SearchStrategy[list[Object]]:
    one = st.fixed_dictionaries(
        {
            "type": st.sampled_from("abcd"),
            "status": st.sampled_from(["True", "False"]),
            "observedGeneration": st.integers(1, 3),
        },
        optional={
            "reason": st.sampled_from(["R", "S"]),
            "message": st.just("m"),
            **({"lastTransitionTime": TIMES} if timed else {}),
        },
    )
    return st.lists(one, max_size=4, unique_by=lambda found: str(found["type"]))


@settings(max_examples=300)
@given(conditions(timed=True), conditions(timed=False))
def test_a_patch_makes_of_the_conditions_before_those_after(before: list[Object], ours: list[Object]) -> None:
    after = merged([dict(own) for own in ours], before, ("d",), NOW)
    struct = struct_of("", "v1", "Pod")
    assert struct is not None
    change = status_changes.patch({"conditions": before}, {"conditions": after}, "u")
    made = {"status": {"conditions": before}}
    if change is not None:
        made = strategic.merged(made, {"status": change["status"]}, struct)
    assert made["status"]["conditions"] == after


@settings(max_examples=300)
@given(conditions(timed=True), conditions(timed=False))
def test_times_change_with_the_status_only(before: list[Object], ours: list[Object]) -> None:
    known = {condition["type"]: condition for condition in before}
    after = merged([dict(own) for own in ours], before, ("d",), NOW)
    mine = {own["type"] for own in ours}
    others = [condition["type"] for condition in before if condition["type"] not in mine and condition["type"] != "d"]
    assert [condition["type"] for condition in after] == [own["type"] for own in ours] + others
    for obj in after:
        old = known.get(obj["type"], {})
        kept = old.get("lastTransitionTime") if old.get("status") == obj["status"] else None
        assert obj["lastTransitionTime"] == (kept or NOW)
