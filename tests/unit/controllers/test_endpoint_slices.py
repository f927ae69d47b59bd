"""Endpoints are distributed so that few slices are written and none is too full."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podfit.controllers.endpoints.packing import EndpointGroup, SliceChanges, pack
from podfit.controllers.endpoints.pods import counts, ports_of
from podfit.controllers.endpoints.slices import _hints

META: dict[str, Any] = {"generateName": "s-", "namespace": "ns", "labels": {"a": "b"}}
PORTS = [{"name": "", "protocol": "TCP", "port": 80}]


def endpoint(uid: int, ready: bool = True) -> dict[str, Any]:
    return {"addresses": [f"10.0.0.{uid}"], "conditions": {"ready": ready}, "targetRef": {"uid": f"u{uid}"}}


def applied(slices: list[dict[str, Any]], plan: SliceChanges) -> list[dict[str, Any]]:
    gone = {row["metadata"]["name"] for row in (*plan.delete, *plan.update)}
    made = [
        {**row, "metadata": {**row["metadata"], "name": f"new-{len(slices)}-{at}"}}
        for at, row in enumerate(plan.create)
    ]
    return [row for row in slices if row["metadata"]["name"] not in gone] + plan.update + made


def held(slices: list[dict[str, Any]]) -> list[str]:
    return sorted(entry["targetRef"]["uid"] for row in slices for entry in row.get("endpoints") or ())


steps = st.lists(st.dictionaries(st.integers(1, 40), st.booleans(), max_size=30), max_size=6)


@given(steps)
def test_slices_hold_exactly_what_is_wanted_after_every_step_and_a_second_pass_writes_nothing(
    history: list[dict[int, bool]],
) -> None:
    slices: list[dict[str, Any]] = []
    for members in history:
        wanted = [EndpointGroup("IPv4", PORTS, [endpoint(uid, ready) for uid, ready in sorted(members.items())])]
        slices = applied(slices, pack(wanted, slices, META, most=7))
        assert held(slices) == sorted(f"u{uid}" for uid in members)
        assert all(len(row["endpoints"]) <= 7 for row in slices)
        assert len(slices) >= 1
        again = pack(wanted, slices, META, most=7)
        assert not (again.create or again.update or again.delete)


def test_a_changed_endpoint_is_written_where_it_is_and_new_ones_go_along() -> None:
    first = [EndpointGroup("IPv4", PORTS, [endpoint(uid) for uid in range(1, 6)])]
    slices = applied([], pack(first, [], META, most=3))
    changed = [EndpointGroup("IPv4", PORTS, [endpoint(1, False), *(endpoint(uid) for uid in range(2, 7))])]
    plan = pack(changed, slices, META, most=3)
    assert (len(plan.create), len(plan.update), len(plan.delete)) == (0, 2, 0)


def test_a_slice_with_other_ports_is_used_again() -> None:
    slices = applied([], pack([EndpointGroup("IPv4", PORTS, [endpoint(1)])], [], META))
    plan = pack([EndpointGroup("IPv4", [{**PORTS[0], "port": 81}], [endpoint(1)])], slices, META)
    assert (len(plan.create), len(plan.update), len(plan.delete)) == (0, 1, 0)
    assert plan.update[0]["ports"][0]["port"] == 81
    assert plan.update[0]["metadata"]["name"] == slices[0]["metadata"]["name"]


def test_labels_of_a_service_reach_its_slices() -> None:
    wanted = [EndpointGroup("IPv4", PORTS, [endpoint(1)])]
    slices = applied([], pack(wanted, [], META))
    plan = pack(wanted, slices, {**META, "labels": {"c": "d"}})
    assert [row["metadata"]["labels"] for row in plan.update] == [{"c": "d"}]


def test_a_named_port_is_found_in_sidecars_too_and_left_out_where_no_container_has_it() -> None:
    ports = [{"containerPort": 9, "name": "web"}]
    service = {"spec": {"ports": [{"name": "w", "port": 80, "targetPort": "web"}, {"port": 1, "targetPort": "none"}]}}
    sidecar = {"spec": {"containers": [{}], "initContainers": [{"restartPolicy": "Always", "ports": ports}]}}
    assert ports_of(service, sidecar) == [{"name": "w", "protocol": "TCP", "port": 9}]
    assert ports_of(service, {"spec": {"containers": [{}], "initContainers": [{"ports": ports}]}}) == []


def test_ended_pods_and_pods_without_an_address_do_not_count() -> None:
    pod: dict[str, Any] = {"metadata": {}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}
    assert counts(pod, terminating=False)
    assert not counts({**pod, "status": {"phase": "Failed", "podIP": "10.0.0.1"}}, terminating=True)
    assert not counts({**pod, "status": {"phase": "Pending"}}, terminating=True)
    going = {**pod, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert counts(going, terminating=True) and not counts(going, terminating=False)


def test_ready_endpoints_are_preferred_near_where_they_are() -> None:
    def hints(distribution: str, **notes: str) -> dict[str, Any]:
        meta = {"name": "s", "annotations": {f"service.kubernetes.io/{name}": text for name, text in notes.items()}}
        place = {"zone": "z", "nodeName": "n"}
        return _hints(place, {"metadata": meta, "spec": {"trafficDistribution": distribution}})

    zones = {"forZones": [{"name": "z"}]}
    assert hints("PreferClose") == hints("PreferSameZone") == zones
    assert hints("PreferSameNode") == {**zones, "forNodes": [{"name": "n"}]}
    assert hints("") == {} and hints("PreferClose", **{"topology-mode": "Auto"}) == {}
