"""The tables that kubectl prints: durations, pod states, columns of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.apiserver.representation.hidden import shown_metadata
from podfit.apiserver.tables.columns import Elapsed, human_duration, selector_text
from podfit.apiserver.tables.custom import custom_layout
from podfit.apiserver.tables.jsonpath import BadPath, find, parse
from podfit.apiserver.tables.kinds.builtin import LAYOUTS
from podfit.apiserver.tables.kinds.pods import PODS

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 720, "5h12m"),
        (30 * 3600, "30h"),
        (3 * 86400 + 4 * 3600, "3d4h"),
        (20 * 86400, "20d"),
        (800 * 86400, "2y70d"),
        (4000 * 86400, "10y"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def rendered(cells: list[Any]) -> list[Any]:
    return [cell.text(NOW) if isinstance(cell, Elapsed) else cell for cell in cells]


def row(status: dict[str, Any], meta: dict[str, Any] | None = None, inits: int = 0) -> list[Any]:
    pod = {
        "metadata": {"name": "p", **(meta or {})},
        "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": f"i{at}"} for at in range(inits)]},
        "status": status,
    }
    return rendered(PODS.cells(pod))


def container(**state: Any) -> dict[str, Any]:
    return {"name": "c", "ready": "running" in state, "restartCount": 2, "state": state}


def test_a_running_pod_is_ready() -> None:
    cells = row({"phase": "Running", "containerStatuses": [container(running={})]})
    assert cells[1:4] == ["1/1", "Running", "2"]


def test_the_reason_of_a_container_is_the_status_of_the_pod() -> None:
    assert row({"phase": "Running", "containerStatuses": [container(waiting={"reason": "CrashLoopBackOff"})]})[2] == (
        "CrashLoopBackOff"
    )
    assert row({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 3})]})[2] == "ExitCode:3"


def test_init_containers_are_counted_until_they_are_done() -> None:
    status = {"phase": "Pending", "initContainerStatuses": [{"name": "i0", "state": {"running": {}}}]}
    assert row(status, inits=2)[2] == "Init:0/2"


def test_a_deleted_pod_is_terminating_unless_it_ended_before() -> None:
    deleted = {"deletionTimestamp": "2023-11-14T22:13:20Z"}
    assert row({"phase": "Running"}, deleted)[2] == "Terminating"
    assert row({"phase": "Succeeded"}, deleted)[2] == "Succeeded"


def test_the_last_restart_is_reported() -> None:
    ended = {**container(running={}), "lastState": {"terminated": {"finishedAt": "2023-11-14T22:08:20Z"}}}
    assert row({"phase": "Running", "containerStatuses": [ended]})[3] == "2 (5m ago)"


DOC = {"a": {"b": [{"t": "x", "v": 1}, {"t": "y", "v": 2}]}, "m": {"k.l/z": "q"}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b[0].v", [1]),
        (".a.b[?(@.t=='y')].v", [2]),
        (".a.b[?(@.t!='y')].v", [1]),
        (".a.b[*].v", [1, 2]),
        ("{.a.b[-1].t}", ["y"]),
        (".m['k.l/z']", ["q"]),
        (r".m.k\.l/z", ["q"]),
        (".nothing.here", []),
        (".", [DOC]),
    ],
)
def test_paths_lead_to_values(path: str, found: list[Any]) -> None:
    assert find(path, DOC) == found


def test_an_invalid_path_is_rejected() -> None:
    with pytest.raises(BadPath):
        parse("a b")


def test_custom_columns_show_values_of_their_type_only() -> None:
    layout = custom_layout(
        [
            {"name": "N", "type": "integer", "jsonPath": ".spec.n"},
            {"name": "S", "type": "string", "jsonPath": ".spec.s"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]
    )
    obj = {"metadata": {"name": "o", "creationTimestamp": "2023-11-14T22:12:20Z"}, "spec": {"n": "no", "s": {"x": 1}}}
    assert rendered(layout.cells(obj)) == ["o", None, '{"x":1}', "60s"]


def test_selectors_read_like_queries() -> None:
    selector = {
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [{"key": "k", "operator": "In", "values": ["y", "x"]}],
    }
    assert selector_text(selector) == "a=1,b=2,k in (x,y)"


def cells(group: str, plural: str, **obj: Any) -> list[Any]:
    return LAYOUTS[group, plural].cells({"metadata": {"name": "o"}, **obj})


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([], "Pending"),
        (["Failed"], "Pending,Failed"),
        (["Approved", "Failed"], "Approved,Failed"),
        (["Approved", "Denied"], "Denied"),
    ],
)
def test_a_failed_signing_request_is_still_pending_approved_or_denied(conditions: list[str], word: str) -> None:
    status = {"conditions": [{"type": kind} for kind in conditions]}
    assert cells("certificates.k8s.io", "certificatesigningrequests", spec={}, status=status)[-1] == word


def test_a_claim_shows_the_class_of_its_annotation_and_what_its_volume_has() -> None:
    meta = {"name": "o", "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}
    spec = {"volumeName": "v", "storageClassName": "new", "volumeAttributesClassName": ""}
    shown = cells("", "persistentvolumeclaims", metadata=meta, spec=spec, status={"phase": "Bound"})
    assert [shown[at] for at in (3, 5, 6)] == ["0", "old", ""]


def test_the_template_generation_of_a_daemonset_is_not_in_its_metadata_alone() -> None:
    notes = {"deprecated.daemonset.template.generation": "1", "a": "b"}
    assert shown_metadata({"name": "d", "annotations": notes}) == {"name": "d", "annotations": {"a": "b"}}
    del notes["a"]
    assert shown_metadata({"name": "d", "annotations": notes}) == {"name": "d"}
