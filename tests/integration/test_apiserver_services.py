"""Services get node ports as Kubernetes allocates them, and keep or lose them with their type."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.asking import Asker, serving

SERVICES = "/api/v1/namespaces/default/services"
MERGE = "application/merge-patch+json"
WRITTEN: dict[str, str] = {}
DRY = {"dryRun": "All"}


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[Asker]:
    async with serving(tmp_path) as server:
        yield Asker(server)


async def create(ask: Asker, name: str, **spec: Any) -> tuple[int, Any]:
    body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    return await ask("POST", SERVICES, body)


async def change(ask: Asker, name: str, **spec: Any) -> Any:
    code, answer = await ask("PATCH", f"{SERVICES}/{name}", {"spec": spec}, MERGE)
    assert code == 200, answer
    return answer["spec"]


async def test_a_node_port_is_allocated_kept_and_free_again_with_its_service(ask: Asker) -> None:
    code, made = await create(ask, "a", type="NodePort")
    port = made["spec"]["ports"][0]["nodePort"]
    assert code == 201 and 30000 <= port <= 32767
    wanted = [{"port": 80, "nodePort": port}]
    code, refused = await create(ask, "b", type="NodePort", ports=wanted)
    assert (code, refused["message"]) == (
        422,
        f'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: {port}: provided port is already allocated',
    )
    assert (await change(ask, "a", sessionAffinity="ClientIP"))["ports"][0]["nodePort"] == port
    assert "nodePort" not in (await change(ask, "a", type="ClusterIP"))["ports"][0]
    assert (await create(ask, "b", type="NodePort", ports=wanted))[0] == 201
    assert (await ask("DELETE", f"{SERVICES}/b"))[0] == 200
    assert (await create(ask, "c", type="NodePort", ports=wanted))[0] == 201


async def test_ports_outside_the_range_are_rejected(ask: Asker) -> None:
    code, refused = await create(ask, "a", type="NodePort", ports=[{"port": 80, "nodePort": 80}])
    assert code == 422
    assert refused["message"].endswith(
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    )


async def test_one_port_over_two_protocols_has_one_number(ask: Asker) -> None:
    ports = [{"port": 53, "name": "t"}, {"port": 53, "name": "u", "protocol": "UDP"}]
    _, made = await create(ask, "dns", type="NodePort", ports=ports)
    first, second = made["spec"]["ports"]
    assert first["nodePort"] == second["nodePort"]


async def test_a_balancer_gets_a_port_for_health_checks_only_while_traffic_is_local(ask: Asker) -> None:
    _, made = await create(ask, "lb", type="LoadBalancer", externalTrafficPolicy="Local")
    port = made["spec"]["healthCheckNodePort"]
    assert 30000 <= port <= 32767
    assert (await change(ask, "lb", sessionAffinity="ClientIP"))["healthCheckNodePort"] == port
    assert "healthCheckNodePort" not in await change(ask, "lb", externalTrafficPolicy="Cluster")
    _, made = await create(ask, "plain", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in made["spec"]["ports"][0]


async def test_only_balancers_report_addresses_and_the_address_of_a_service_cannot_be_emptied(ask: Asker) -> None:
    _, made = await create(ask, "a")
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    assert (await ask("PATCH", f"{SERVICES}/a/status", status, MERGE))[0] == 422
    assert (await change(ask, "a", clusterIP=""))["clusterIP"] == made["spec"]["clusterIP"]
    await create(ask, "lb", type="LoadBalancer")
    code, balanced = await ask("PATCH", f"{SERVICES}/lb/status", status, MERGE)
    assert code == 200 and balanced["status"]["loadBalancer"]["ingress"] == [{"ip": "1.2.3.4", "ipMode": "VIP"}]


async def test_a_restarted_server_recovers_which_ports_are_in_use(tmp_path: Path) -> None:
    from podfit.apiserver.app import ApiServer
    from podfit.apiserver.config import Config
    from podfit.store.memory import MemoryStore

    store, wanted = MemoryStore(), [{"port": 80, "nodePort": 30333}]
    for code, name in ((201, "a"), (422, "b")):
        server = ApiServer(Config(store, tmp_path))
        await server.start()
        try:
            assert (await create(Asker(server), name, type="NodePort", ports=wanted))[0] == code
        finally:
            await server.stop()


async def refusal(ask: Asker, name: str, query: dict[str, str] = WRITTEN, **spec: Any) -> tuple[int, str]:
    code, answer = await ask("POST", SERVICES, {"metadata": {"name": name}, "spec": spec}, **query)
    return code, answer.get("message", "")


async def test_an_unavailable_port_is_reported_before_a_name_that_exists_or_is_invalid(ask: Asker) -> None:
    ports = [{"port": 80, "nodePort": 30080}]
    assert (await create(ask, "a", type="NodePort", ports=ports))[0] == 201
    for name in ("a", "b", "Bad_Name"):
        for query in (WRITTEN, DRY):
            code, words = await refusal(ask, name, query, type="NodePort", ports=ports)
            assert code == 422
            assert words == (
                f'Service "{name}" is invalid: spec.ports[0].nodePort: Invalid value: 30080: '
                "provided port is already allocated"
            )
    other = [{"port": 80, "nodePort": 30081}]
    assert await refusal(ask, "a", type="NodePort", ports=other) == (409, 'services "a" already exists')


async def test_a_number_is_one_port_whatever_its_protocol(ask: Asker) -> None:
    assert (await create(ask, "a", type="NodePort", ports=[{"port": 80, "nodePort": 30080}]))[0] == 201
    ports = [{"port": 53, "protocol": "UDP", "nodePort": 30080}]
    assert (await refusal(ask, "b", type="NodePort", ports=ports))[0] == 422


async def test_a_dry_run_takes_no_port_and_does_not_request_its_range(ask: Asker) -> None:
    ports = [{"port": 80, "nodePort": 30080}]
    for name in ("a", "b"):
        assert await refusal(ask, name, DRY, type="NodePort", ports=ports) == (201, "")
    assert await refusal(ask, "a", DRY, type="NodePort", ports=[{"port": 80, "nodePort": 80}]) == (201, "")


async def test_an_unavailable_health_check_port_is_an_internal_error(ask: Asker) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    code, words = await refusal(ask, "a", **local, healthCheckNodePort=30100, ports=[{"port": 80, "nodePort": 30100}])
    assert (code, words) == (
        500,
        "Internal error occurred: failed to allocate requested HealthCheck NodePort 30100: "
        "provided port is already allocated",
    )
    assert (await create(ask, "a", **local, healthCheckNodePort=30101))[0] == 201
    code, answer = await ask("PATCH", f"{SERVICES}/a", {"spec": {"healthCheckNodePort": 30102}}, MERGE)
    assert code == 422 and answer["message"] == (
        'Service "a" is invalid: spec.healthCheckNodePort: Forbidden: field is immutable'
    )


async def test_a_renumbered_port_keeps_its_node_port_by_its_name(ask: Asker) -> None:
    _, made = await create(ask, "a", type="NodePort", ports=[{"name": "web", "port": 80}])
    body = {"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"name": "web", "port": 81}]}}
    code, answer = await ask("PUT", f"{SERVICES}/a", body)
    assert code == 200
    assert answer["spec"]["ports"][0]["nodePort"] == made["spec"]["ports"][0]["nodePort"]


# --- changes of the type


async def test_a_name_that_becomes_a_service_gets_an_address_and_loses_it_again(ask: Asker) -> None:
    name = {"type": "ExternalName", "externalName": "a.example"}
    assert "clusterIP" not in (await create(ask, "a", internalTrafficPolicy="Local", **name))[1]["spec"]
    spec = await change(ask, "a", type="ClusterIP", externalName=None)
    assert spec["clusterIPs"] == [spec["clusterIP"]] and spec["clusterIP"].startswith("10.96.")
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    taken = {"clusterIP": spec["clusterIP"]}
    assert (await create(ask, "b", **taken))[0] == 422
    spec = await change(ask, "a", **name)
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & spec.keys()
    code, made = await create(ask, "b", **taken)
    assert code == 201, made


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
            "this cluster is not configured for dual-stack services",
        ),
        ({"ipFamilies": ["IPv6"]}, "spec.clusterIPs[0]: Invalid value: "),
        ({"clusterIP": "None"}, 'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set'),
        ({"clusterIP": "10.96.1.2"}, 'spec.clusterIPs[0]: Invalid value: ["10.96.1.2"]: may not change once set'),
        (
            {"clusterIPs": ["10.96.1.2"]},
            'spec.clusterIPs: Invalid value: ["10.96.1.2"]: first value must match `clusterIP`',
        ),
    ],
)
async def test_families_and_addresses_of_a_service_do_not_change(ask: Asker, spec: Any, errors: str) -> None:
    await create(ask, "a")
    code, refused = await ask("PATCH", f"{SERVICES}/a", {"spec": spec}, MERGE)
    assert code == 422 and refused["message"].startswith(f'Service "a" is invalid: {errors}')


async def test_an_update_may_leave_addresses_out_and_prefer_two_families(ask: Asker) -> None:
    _, made = await create(ask, "a")
    for spec in ({"clusterIP": "", "clusterIPs": None}, {"ipFamilyPolicy": "PreferDualStack"}, {"ipFamilies": None}):
        kept = await change(ask, "a", **spec)
        assert (kept["clusterIP"], kept["ipFamilies"]) == (made["spec"]["clusterIP"], ["IPv4"])


async def test_a_service_without_addresses_and_pods_may_release_a_family(ask: Asker) -> None:
    _, made = await create(ask, "a", clusterIP="None")
    assert made["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    code, refused = await ask("PATCH", f"{SERVICES}/a", {"spec": {"ipFamilies": ["IPv4"]}}, MERGE)
    assert code == 422 and "must be 'SingleStack' to release the secondary IP family" in refused["message"]
    assert (await change(ask, "a", ipFamilyPolicy="SingleStack"))["ipFamilies"] == ["IPv4"]


async def test_the_class_of_a_balancer_stays_and_is_for_balancers_only(ask: Asker) -> None:
    await create(ask, "lb", type="LoadBalancer", loadBalancerClass="a.io/b")
    code, refused = await ask("PATCH", f"{SERVICES}/lb", {"spec": {"loadBalancerClass": "a.io/c"}}, MERGE)
    assert (code, refused["details"]["causes"][0]["message"]) == (
        422,
        'Invalid value: "a.io/c": may not change once set',
    )
    await create(ask, "plain")
    code, refused = await ask("PATCH", f"{SERVICES}/plain", {"spec": {"loadBalancerClass": "a.io/c"}}, MERGE)
    assert code == 422 and len(refused["details"]["causes"]) == 2
