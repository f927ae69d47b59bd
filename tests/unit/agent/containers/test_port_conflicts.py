"""Declared ports that another process of the host's network listens on."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.agent.lab import Lab, pod

from podfit.agent.containers import port_conflicts
from podfit.agent.containers.port_conflicts import PortConflicts
from podfit.agent.pods.observe import Snapshot
from podfit.agent.pods.record import PodRecord

HOST = "10.0.0.1"


class Ports:
    """Simulated kernel state: the ports that other processes listen on, and those of the container."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.others: list[int] = []
        self.own: list[int] = []
        monkeypatch.setattr(port_conflicts, "taken_by_others", lambda ports, pid: (self.others, self.own))


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Ports:
    return Ports(monkeypatch)


async def sharing(tmp_path: Path, ip: str = HOST) -> tuple[Lab, PortConflicts, PodRecord, Snapshot]:
    lab = Lab(tmp_path)
    body = pod()
    body["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]
    record = await lab.run(body)
    found = (await lab.observed(record)).snapshot
    assert found.state is not None
    running = {"c": replace(found.running["c"], pid=42)}
    snapshot = replace(found, state=replace(found.state, ips=(ip,)), running=running)
    config = type(lab.core.config)("n", tmp_path, address=HOST)
    return lab, PortConflicts(config, HOST, lab.events, lab.clock), record, snapshot


async def test_a_port_in_use_makes_the_container_unready_with_one_event(tmp_path: Path, ports: Ports) -> None:
    lab, conflicts, record, snapshot = await sharing(tmp_path)
    ports.others = [80]
    assert await conflicts.check(record, snapshot) > 0
    assert await conflicts.check(record, snapshot) > 0
    assert lab.events.reasons.count("PortConflict") == 1 and "80/TCP" in record.port_conflicts["c"]
    ports.others = []
    await conflicts.check(record, snapshot)
    assert record.port_conflicts == {}
    await lab.stop()


async def test_a_container_that_listens_itself_is_no_longer_checked(tmp_path: Path, ports: Ports) -> None:
    lab, conflicts, record, snapshot = await sharing(tmp_path)
    ports.own = [80]
    assert await conflicts.check(record, snapshot) == 0.0
    ports.others = [80]
    assert await conflicts.check(record, snapshot) == 0.0
    assert record.port_conflicts == {}
    await lab.stop()


async def test_a_program_that_does_not_listen_is_not_waited_for_longer_than_ten_seconds(
    tmp_path: Path, ports: Ports
) -> None:
    lab, conflicts, record, snapshot = await sharing(tmp_path)
    assert await conflicts.check(record, snapshot) > 0
    await lab.clock.advance(11.0)
    assert await conflicts.check(record, snapshot) == 0.0
    await lab.stop()


async def test_a_pod_with_an_address_of_its_own_has_no_conflicts(tmp_path: Path, ports: Ports) -> None:
    lab, conflicts, record, snapshot = await sharing(tmp_path, ip="10.1.2.3")
    ports.others = [80]
    assert await conflicts.check(record, snapshot) == 0.0
    assert record.port_conflicts == {}
    await lab.stop()
