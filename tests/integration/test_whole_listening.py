"""`podfit up` that listens on every address of the machine prints the address at which it is reachable, and is."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole, pod_spec

from podfit.api.registry.kinds import NODE, POD, kind_named
from podfit.client.kubeconfig import load
from podfit.client.rest import Client
from podfit.kit.web.addresses import machine_address


async def test_a_server_on_all_addresses_is_reached_at_the_machines_address(tmp_path: Path) -> None:
    here = machine_address()
    async with Whole(tmp_path, host="0.0.0.0") as whole:
        assert whole.up.server.url.startswith(f"https://{here}:")
        client = Client(load(str(whole.up.kubeconfig)).transport("test"))
        try:
            node = await becomes(client, NODE, "", "n1", lambda obj: obj is not None)
            shown = {address["type"]: address["address"] for address in node["status"]["addresses"]}
            assert shown["InternalIP"] == here
            meta = {"name": "p", "namespace": "default"}
            await client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()})
            seen = await becomes(client, POD, "default", "p", lambda pod: (pod["status"].get("podIP") or "") != "")
            assert (seen["status"]["podIP"], seen["status"]["hostIP"]) == (here, here)
        finally:
            await client.close()


async def test_endpoints_follow_a_server_that_listens_elsewhere_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        async with Whole(tmp_path, store="sqlite", nodes=0) as whole:
            found = await whole.client.get(kind_named("Endpoints"), "default", "kubernetes")
            server = whole.up.server
            (subset,) = found["subsets"]
            assert subset["addresses"] == [{"ip": "127.0.0.1"}]
            assert [port["port"] for port in subset["ports"]] == [server.front.port]
