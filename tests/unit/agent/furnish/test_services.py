"""Environment variables about Services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.nodes import Cluster

from podfit.agent.furnish.services import SERVICE, Services
from podfit.agent.furnish.volumes.objects import MissingObject


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as running:
        yield running


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}


async def service(cluster: Cluster, name: str, namespace: str = "default", **spec: Any) -> str:
    ports = [{"name": "http", "port": 80}, {"name": "dns-udp", "port": 53, "protocol": "UDP"}]
    meta = {"name": name, "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": ports, **spec}}
    return str((await cluster.client.create(SERVICE, body))["spec"].get("clusterIP"))


async def reported(
    cluster: Cluster, of: dict[str, Any], api_server: str = "", own_network: bool = False
) -> dict[str, str]:
    services = Services(cluster.client, cluster.clock, api_server)
    with pytest.raises(MissingObject, match="services have not yet been read at least once"):
        services.variables(of, own_network)
    task = asyncio.ensure_future(services.run())
    await services._cache.ready.wait()
    task.cancel()
    return services.variables(of, own_network)


async def test_services_of_the_namespace_become_environment_variables(cluster: Cluster) -> None:
    ip = await service(cluster, "my-web")
    await cluster.namespace("other")
    await service(cluster, "far", "other")
    await service(cluster, "headless", clusterIP="None")
    found = await reported(cluster, pod())
    assert {key: value for key, value in found.items() if not key.startswith("KUBERNETES_")} == {
        "MY_WEB_SERVICE_HOST": ip,
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP": "80",
        "MY_WEB_SERVICE_PORT_DNS_UDP": "53",
        "MY_WEB_PORT": f"tcp://{ip}:80",
        "MY_WEB_PORT_80_TCP": f"tcp://{ip}:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": ip,
        "MY_WEB_PORT_53_UDP": f"udp://{ip}:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": ip,
    }


async def test_a_pod_without_service_links_still_gets_the_api_servers_variables(cluster: Cluster) -> None:
    await service(cluster, "my-web")
    found = await reported(cluster, pod(enableServiceLinks=False), "https://10.0.0.5:6443")
    assert {key for key in found if not key.startswith("KUBERNETES_")} == set()
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"]) == ("10.0.0.5", "6443")
    assert found["KUBERNETES_PORT"] == "tcp://10.0.0.5:6443"
    assert found["KUBERNETES_SERVICE_PORT_HTTPS"] == "6443"


async def test_a_static_pod_does_not_wait_for_services(cluster: Cluster) -> None:
    static = pod()
    static["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    assert Services(cluster.client, cluster.clock, "").variables(static, False) == {}


async def test_a_pod_with_its_own_network_finds_an_api_server_on_loopback_at_the_address_of_its_service(
    cluster: Cluster,
) -> None:
    found = await reported(cluster, pod(), "https://127.0.0.1:6443", own_network=True)
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"]) == ("10.96.0.1", "443")
    found = await reported(cluster, pod(), "https://127.0.0.1:6443")
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_SERVICE_PORT"]) == ("127.0.0.1", "6443")
    found = await reported(cluster, pod(), "https://10.0.0.5:6443", own_network=True)
    assert found["KUBERNETES_SERVICE_HOST"] == "10.0.0.5"


@pytest.mark.parametrize(
    ("api_server", "redirects"),
    [
        ("https://127.0.0.1:6443", [("10.96.0.1", 443, "127.0.0.1", 6443)]),
        ("https://10.0.0.5:6443", []),
        ("https://localhost.example:6443", []),
        ("https://[::1]:6443", []),
        ("", []),
    ],
)
async def test_only_an_api_server_on_loopback_is_redirected_to(
    cluster: Cluster, api_server: str, redirects: list[tuple[str, int, str, int]]
) -> None:
    seen: list[tuple[str, int, str, int]] = []
    services = Services(cluster.client, cluster.clock, api_server, lambda *given: seen.append(given))
    task = asyncio.ensure_future(services.run())
    await services._cache.ready.wait()
    task.cancel()
    assert seen == redirects
