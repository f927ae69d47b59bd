"""VM pods in the pod network: reached at their address, by whichever way the guest learns it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.e2e.guest.vm_image import CMDLINE
from tests.vms import Vms, guest_archive, needs_vms, serving

from podfit.agent.runtimes.cri import streaming
from podfit.cri import api_pb2 as cri
from podfit.podnet.support import missing_for_bridge

pytestmark = [needs_vms, pytest.mark.skipif(bool(missing_for_bridge()), reason="no bridges here")]


async def page(address: str) -> bytes:
    reader, writer = await asyncio.open_connection(address, 8080)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    found = await reader.read()
    writer.close()
    return found


async def address_of(vms: Vms) -> tuple[str, str]:
    sandbox = (await vms.runtime["ListPodSandbox"](cri.ListPodSandboxRequest())).items[0].id
    found = await vms.runtime["PodSandboxStatus"](cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox))
    return sandbox, found.status.network.ip


@pytest.mark.parametrize("words", ["", "podfit.dhcp"], ids=["command line", "DHCP"])
async def test_a_guest_is_reached_at_the_pods_address(tmp_path: Path, words: str) -> None:
    async with serving(tmp_path, guest_archive(tmp_path), network="bridge") as (runtime, vms):
        id = await vms.run("reached", cmdline=f"{CMDLINE} {words}")
        await vms.booted(id)
        sandbox, address = await address_of(vms)
        assert address
        assert b"a VM pod" in await page(address)
        assert f"{address}/" in await vms.exec(id, "ip addr show eth0")
        answer = await vms.runtime["PortForward"](cri.PortForwardRequest(pod_sandbox_id=sandbox, port=[8080]))
        connection = await streaming.forward(answer.url, 8080)
        await connection.write(b"GET / HTTP/1.0\r\n\r\n")
        seen = b""
        while b"a VM pod" not in seen:
            piece = await connection.read()
            assert piece
            seen += piece
        await connection.close()
        namespace = Path(runtime.records.sandboxes[sandbox].namespace)
        assert namespace.exists()
    assert not namespace.exists()
