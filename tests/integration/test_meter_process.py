"""A meter in its own process, with only the permissions of deploy/meter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.support.cluster.expect import becomes
from tests.support.cluster.whole import Whole

from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.client.kubeconfig import Access, load
from podfit.compose import MeterAlone
from podfit.kit.web.addresses import machine_address

ROLE = Path(__file__).parents[2] / "deploy" / "meter" / "role.yaml"
ACCOUNT, SERVICE, SLICE = kind_named("ServiceAccount"), kind_named("Service"), kind_named("EndpointSlice")
GROUP = "v1beta1.metrics.k8s.io"


async def as_account(whole: Whole) -> Access:
    """Applies the manifests, and returns a kubeconfig for their service account."""
    for body in yaml.safe_load_all(ROLE.read_text()):
        kind, meta = kind_named(body["kind"]), body["metadata"]
        try:
            await whole.client.create(kind, body)
        except ApiError as error:
            assert error.code == 409
            await whole.client.patch(kind, meta.get("namespace", ""), meta["name"], body)
    spec = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await whole.client.create(ACCOUNT, spec, "kube-system", "podfit-meter", "token")
    admin = load(str(whole.up.kubeconfig))
    return replace(admin, cert=None, key=None, token=answer["status"]["token"])


def available(service: Object | None) -> bool:
    rows = ((service or {}).get("status") or {}).get("conditions") or [{}]
    return rows[0].get("status") == "True"


async def test_it_registers_itself_by_an_external_name_on_loopback(tmp_path: Path) -> None:
    async with Whole(tmp_path, controllers=False) as whole:
        alone = MeterAlone(await as_account(whole), "127.0.0.1", 0)
        await alone.start()
        try:
            await becomes(whole.client, kind_named("APIService"), "", GROUP, available)
            made = await whole.client.get(SERVICE, "kube-system", "podfit-meter")
            assert (made["spec"]["type"], made["spec"]["externalName"]) == ("ExternalName", "127.0.0.1")
            assert (await whole.client.raw("GET", "/apis/metrics.k8s.io/v1beta1/nodes"))["kind"] == "NodeMetricsList"
        finally:
            await alone.stop()


async def test_it_registers_itself_by_a_slice_and_moves_with_a_new_start(tmp_path: Path) -> None:
    address = machine_address()
    if address.startswith("127."):
        pytest.skip("the machine has no address but loopback")
    async with Whole(tmp_path, controllers=False) as whole:
        access = await as_account(whole)
        ports = []
        for _ in range(2):
            alone = MeterAlone(access, address, 0)
            url = await alone.start()
            try:
                await becomes(whole.client, kind_named("APIService"), "", GROUP, available)
                answer = await whole.client.raw("GET", "/apis/metrics.k8s.io/v1beta1/nodes")
                assert answer["kind"] == "NodeMetricsList"
                row = await whole.client.get(SLICE, "kube-system", "podfit-meter-ipv4")
                assert row["endpoints"][0]["addresses"] == [address]
                assert url.endswith(f":{row['ports'][0]['port']}")
                ports.append(row["ports"][0]["port"])
            finally:
                await alone.stop()
        assert (await whole.client.get(SERVICE, "kube-system", "podfit-meter"))["spec"]["type"] == "ClusterIP"
        assert len(set(ports)) == 2
