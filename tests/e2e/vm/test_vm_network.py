"""VM pods in the pod network are reachable at their address, however the guest obtains it."""

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


async def address_of(vms: Vms, id: str = "") -> tuple[str, str]:
    containers = (await vms.runtime["ListContainers"](cri.ListContainersRequest())).containers
    sandbox = next(container.pod_sandbox_id for container in containers if id in ("", container.id))
    found = await vms.runtime["PodSandboxStatus"](cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox))
    return sandbox, found.status.network.ip


async def test_guests_configured_by_command_line_or_dhcp_are_reached_at_the_pods_address(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, guest_archive(tmp_path), network="bridge") as (runtime, vms):
        ids = [await vms.run("read", cmdline=CMDLINE), await vms.run("asked", cmdline=f"{CMDLINE} podfit.dhcp")]
        for id in ids:
            await vms.booted(id)
            sandbox, address = await address_of(vms, id)
            assert address
            assert b"a VM pod" in await page(address)
            assert f"{address}/" in await vms.exec(id, "ip addr show eth0")
            await is_forwarded(vms, sandbox)
        namespaces = [Path(entry.namespace) for entry in runtime.records.sandboxes.values()]
        assert len(namespaces) == 2 and all(namespace.exists() for namespace in namespaces)
    assert not any(namespace.exists() for namespace in namespaces)


async def is_forwarded(vms: Vms, sandbox: str) -> None:
    answer = await vms.runtime["PortForward"](cri.PortForwardRequest(pod_sandbox_id=sandbox, port=[8080]))
    connection = await streaming.forward(answer.url, 8080)
    await connection.write(b"GET / HTTP/1.0\r\n\r\n")
    seen = b""
    while b"a VM pod" not in seen:
        piece = await connection.read()
        assert piece
        seen += piece
    await connection.close()
