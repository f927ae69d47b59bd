"""A client that reads an object in any dialect and writes it back unchanged leaves the stored object unchanged."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.resize.dialects import LABEL
from podfit.api.schema.decoding.decode import convert
from podfit.apiserver.dialects import Dialects
from podfit.apiserver.dialects.base import Dialect

DIALECTS = list(Dialects().by_name.values())
NOW = "2021-02-05T00:00:00Z"
AMOUNTS = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["100m", "1", "1500m"]), "memory": st.sampled_from(["64Mi", "128Mi"])}
)
SIZES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})
POLICIES = st.lists(
    st.fixed_dictionaries(
        {
            "resourceName": st.sampled_from(["cpu", "memory"]),
            "restartPolicy": st.sampled_from(["NotRequired", "RestartContainer"]),
        }
    ),
    unique_by=lambda entry: entry["resourceName"],
    max_size=2,
)
STATES = st.sampled_from(
    [
        {"running": {"startedAt": NOW}},
        {"waiting": {"reason": "ContainerCreating"}},
        {"terminated": {"exitCode": 0, "startedAt": NOW, "finishedAt": NOW}},
    ]
)


@st.composite
def containers(draw: st.DrawFn, name: str) -> tuple[Object, Object | None]:
    """A container, and its node's report on it, if any."""
    container: Object = {"name": name, "image": "i", "resources": draw(SIZES)}
    if listed := draw(POLICIES):
        container["resizePolicy"] = listed
    if draw(st.booleans()):
        return container, None
    status: Object = {"name": name, "image": "i", "imageID": "", "ready": True, "restartCount": 0, "lastState": {}}
    status["state"] = draw(STATES)
    if allocated := draw(AMOUNTS):
        status["allocatedResources"] = allocated
    if draw(st.booleans()):
        status["resources"] = draw(SIZES)
    return container, status


@st.composite
def conditions(draw: st.DrawFn) -> list[Object]:
    kinds = draw(st.lists(st.sampled_from(["PodResizePending", "PodResizeInProgress", "Ready"]), unique=True))
    listed = []
    for kind in kinds:
        one: Object = {"type": kind, "status": draw(st.sampled_from(["True", "False"])), "lastTransitionTime": NOW}
        one["lastProbeTime"] = None
        if generation := draw(st.integers(0, 3)):
            one["observedGeneration"] = generation
        if kind == "PodResizePending":
            one["reason"] = draw(st.sampled_from(["Deferred", "Infeasible", "SomeDay"]))
        listed.append(one)
    return listed


@st.composite
def pods(draw: st.DrawFn) -> Object:
    made = [draw(containers(f"c{at}")) for at in range(draw(st.integers(1, 3)))]
    status: Object = {"phase": "Running", "qosClass": "Burstable"}
    if listed := draw(conditions()):
        status["conditions"] = listed
    if reported := [item for _, item in made if item is not None]:
        status["containerStatuses"] = reported
    if observed := draw(st.integers(0, 3)):
        status["observedGeneration"] = observed
    meta: Object = {"name": "p", "namespace": "n", "generation": draw(st.integers(1, 3))}
    if mark := draw(st.sampled_from(["", "2020", "2021"])):
        meta["annotations"] = {LABEL: mark, "other": "x"}
    spec = {"containers": [item for item, _ in made], "restartPolicy": "Always"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}


EVERY = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda obj: obj.name)


@EVERY
@settings(max_examples=300)
@given(pod=pods())
def test_an_object_written_back_unchanged_equals_the_stored_one(dialect: Dialect, pod: Object) -> None:
    before = copy.deepcopy(pod)
    assert dialect.put_back(POD, dialect.show(POD, pod), pod, NOW) == before
    assert pod == before


@EVERY
@settings(max_examples=300)
@given(pod=pods())
def test_every_native_state_fits_the_types_of_every_dialect(dialect: Dialect, pod: Object) -> None:
    """None of the fields in a representation is unknown to the dialect's own clients."""
    shown = dialect.show(POD, pod)
    read = convert(shown, dialect.struct(POD), field_validation="Strict")
    assert read.warnings == []


@EVERY
@settings(max_examples=300)
@given(pod=pods(), label=st.text("ab", min_size=1, max_size=3))
def test_a_change_of_something_else_changes_nothing_of_a_resize(dialect: Dialect, pod: Object, label: str) -> None:
    shown = copy.deepcopy(dialect.show(POD, pod))
    shown["metadata"]["labels"] = {"l": label}
    assert dialect.put_back(POD, shown, pod, NOW) == {
        **pod,
        "metadata": {**pod["metadata"], "labels": {"l": label}},
    }


@settings(max_examples=300)
@given(pod=pods(), way=st.permutations(DIALECTS))
def test_a_namespace_that_goes_through_all_dialects_loses_nothing(pod: Object, way: list[Dialect]) -> None:
    stored = pod
    for dialect in way:
        stored = dialect.put_back(POD, dialect.show(POD, stored), stored, NOW)
    assert stored == pod


@EVERY
@settings(max_examples=300)
@given(pod=pods(), more=st.sampled_from(["Ready", "Initialized"]))
def test_a_report_of_something_else_keeps_the_state_of_a_resize(dialect: Dialect, pod: Object, more: str) -> None:
    """A node that patches another condition does not change the allocation or the state of a resize."""
    shown = copy.deepcopy(dialect.show(POD, pod))
    listed = [condition for condition in shown["status"].get("conditions") or () if condition["type"] != more]
    shown["status"]["conditions"] = [*listed, {"type": more, "status": "True"}]
    after = dialect.put_back(POD, shown, pod, NOW)["status"]
    kept = ("PodResizePending", "PodResizeInProgress")
    assert [condition for condition in after["conditions"] if condition["type"] in kept] == [
        condition for condition in pod["status"].get("conditions") or () if condition["type"] in kept
    ]
    before = pod["status"].get("containerStatuses") or []
    allocated = {entry["name"]: entry["allocatedResources"] for entry in before if "allocatedResources" in entry}
    found = {status["name"]: status.get("allocatedResources") for status in after.get("containerStatuses") or ()}
    assert {name: found[name] for name in allocated} == allocated
