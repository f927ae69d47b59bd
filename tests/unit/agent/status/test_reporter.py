"""The facts that a status is composed of."""

from __future__ import annotations

from tests.unit.agent.lab import Lab, pod

from podfit.agent.pods import termination


async def test_a_rejected_pod_is_reported_as_failed_with_its_reason(lab: Lab) -> None:
    record = lab.add(pod(cpu="64"))
    await lab.parts.reporter.reject(record)
    status = lab.api.statuses[-1]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")


async def test_an_already_reported_state_is_not_written_again(lab: Lab) -> None:
    record = await lab.run()
    found = await lab.observed(record)
    assert not await lab.parts.reporter.report(record, found.snapshot, True)


async def test_a_pod_on_the_hosts_network_has_the_nodes_address(lab: Lab) -> None:
    record = await lab.run(pod(hostNetwork=True))
    assert record.pod["status"]["podIP"] == record.pod["status"]["hostIP"] == "10.0.0.1"


async def test_the_start_time_never_changes(lab: Lab) -> None:
    record = await lab.run()
    first = lab.parts.reporter.start_time(record)
    await lab.clock.advance(100.0)
    assert lab.parts.reporter.start_time(record) == first


async def test_an_evicted_pod_has_failed_once_nothing_runs(lab: Lab) -> None:
    record = await lab.run()
    termination.evicted(record, "Evicted", "no memory", 1.0, True)
    found = await lab.observed(record)
    await lab.parts.reporter.report(record, found.snapshot, True)
    assert record.pod["status"]["phase"] == "Running"
    await lab.runtime.stop_container(found.snapshot.running["c"].id, 0.0)
    await found.observe()
    await lab.parts.reporter.report(record, found.snapshot, True)
    status = record.pod["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "Evicted", "no memory")
    assert "DisruptionTarget" in [condition["type"] for condition in status["conditions"]]


async def test_restart_counts_do_not_fall_when_the_runtime_has_lost_the_containers(lab: Lab) -> None:
    body = pod()
    body["status"]["containerStatuses"] = [{"name": "c", "restartCount": 4}]
    record = lab.add(body)
    found = await lab.observed(record)
    await lab.parts.reporter.report(record, found.snapshot, False)
    assert record.pod["status"]["containerStatuses"][0]["restartCount"] == 4
