"""Usage of a node in each of its forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from podfit.agent.pods.record import PodRecord
from podfit.agent.pods.story import Story
from podfit.agent.runtimes.values import RUNNING, ContainerState, Limits, NotFound, PodConfig, PodState, Usage
from podfit.agent.server.usage.exposition import cadvisor_page, probes_page, resource_page
from podfit.agent.server.usage.summary import summary
from podfit.agent.server.usage.usage import UsageReader, machine_usage, resources_of
from podfit.api.numbers import Reading
from podfit.kit.clock import FakeClock
from podfit.meter.readings import read_page

MI = 1 << 20


class Node:
    """The parts of an agent and its runtime that usage needs, with one pod `default/p` of one container `c`."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.runtime = self
        self.name = 'p"1\\'
        pod = {"metadata": {"name": self.name, "namespace": "default", "uid": "u"}, "spec": {"containers": []}}
        self.records = {"u": PodRecord("u", pod, Story(self.clock))}
        self.cpu_nanos = 0
        self.reads = 0
        self.gone = False

    async def pod(self, uid: str) -> PodState | None:
        if self.gone:
            return None
        config = PodConfig("u", self.name, "default", "Burstable", Limits(), "p", Path())
        container = ContainerState("id1", "c", 0, RUNNING, "busybox", "sha", 0.0, self.clock.now())
        return PodState(config, True, (), self.clock.now(), (container,))

    async def container_usage(self, container_id: str) -> Usage:
        self.reads += 1
        return Usage(self.clock.now(), self.cpu_nanos, 3 * MI, 2 * MI, MI, periods=7, oom_kills=1)

    async def usages(self, uid: str) -> list[tuple[ContainerState, Usage]]:
        state = await self.pod(uid)
        return [(item, await self.container_usage(item.id)) for item in (state.containers if state else ())]

    async def pod_usage(self, uid: str) -> Usage:
        return Usage(self.clock.now(), self.cpu_nanos, 4 * MI, 3 * MI)

    async def container_limits(self, container_id: str) -> Limits:
        return Limits(102, 20000, 64 * MI)

    async def pod_limits(self, uid: str) -> Limits:
        return Limits(102)


def reader(node: Any) -> UsageReader:
    return UsageReader(node, machine=False)


async def test_two_scrapes_give_a_rate_and_the_first_none() -> None:
    node = Node()
    usage = reader(node)
    assert (await usage.read()).pods[0].containers[0].nano_cores is None
    await node.clock.advance(2.0)
    node.cpu_nanos = 500_000_000
    assert (await usage.read()).pods[0].containers[0].nano_cores == 250_000_000


async def test_a_counter_that_fell_has_no_rate() -> None:
    node = Node()
    usage = reader(node)
    node.cpu_nanos = 10**9
    await usage.read()
    await node.clock.advance(2.0)
    node.cpu_nanos = 5
    assert (await usage.read()).pods[0].containers[0].nano_cores is None


async def test_many_requests_within_a_second_cost_one_measurement() -> None:
    node = Node()
    usage = reader(node)
    for _ in range(10):
        await usage.read()
    assert node.reads == 1
    await node.clock.advance(1.1)
    await usage.read()
    assert node.reads == 2


async def test_numbers_for_a_meter_are_those_of_containers_and_nothing_else_is_read() -> None:
    class Frugal(Node):
        async def pod_usage(self, uid: str) -> Usage:
            raise AssertionError("a meter wants to know about containers only")

        async def container_limits(self, container_id: str) -> Limits:
            raise AssertionError("a meter wants no limits")

    node = Frugal()
    node.cpu_nanos = 3
    read = await reader(node).resources()
    now = node.clock.now()
    assert read.node == Reading(now, 3e-9, 2 * MI)
    assert read.containers == {("default", node.name, "c"): Reading(now, 3e-9, 2 * MI, now, periods=7)}


async def test_numbers_for_a_meter_are_taken_from_a_fresh_look_but_not_the_other_way_round() -> None:
    node = Node()
    usage = reader(node)
    await usage.resources()
    await usage.read()
    assert node.reads == 2
    await usage.resources()
    assert node.reads == 2


async def test_a_pod_that_was_deleted_is_left_out_without_an_error() -> None:
    node = Node()
    node.gone = True
    sample = await reader(node).read()
    assert (sample.pods, sample.errors) == ((), 0)


async def test_a_pod_that_cannot_be_read_is_an_error_of_the_scrape() -> None:
    class Broken(Node):
        async def pod_usage(self, uid: str) -> Usage:
            raise NotFound("no such cgroup")

    sample = await reader(Broken()).read()
    assert "scrape_error 1" in resource_page(sample)


async def test_the_resource_page_has_the_kubelets_names_and_escapes_labels() -> None:
    node = Node()
    node.cpu_nanos = 1_500_000_000
    page = resource_page(await reader(node).read())
    labels = 'container="c",namespace="default",pod="p\\"1\\\\"'
    stamp = int(node.clock.now() * 1000)
    assert f"container_cpu_usage_seconds_total{{{labels}}} 1.5 {stamp}\n" in page
    assert f"container_memory_working_set_bytes{{{labels}}} {2 * MI} {stamp}\n" in page
    assert f"node_cpu_usage_seconds_total 1.5 {stamp}\n" in page
    assert "scrape_error 0\n" in page
    for name in ("container_start_time_seconds", "pod_cpu_usage_seconds_total", "pod_memory_working_set_bytes"):
        assert f"\n# TYPE {name} " in page


async def test_a_meter_in_the_same_process_reads_the_same_numbers_as_the_page() -> None:
    node = Node()
    node.cpu_nanos = 1_500_000_000
    sample = await reader(node).read()
    assert resources_of(sample) == read_page(resource_page(sample), node.clock.now())


async def test_the_cadvisor_page_has_limits_throttling_and_ooms_by_container() -> None:
    page = cadvisor_page(await reader(Node()).read(), "/podfit", 2.0, 8 * MI)
    inside = [line for line in page.splitlines() if 'container="c"' in line]
    values = {line.partition("{")[0]: line.rpartition("}")[2].split()[0] for line in inside}
    assert values["container_cpu_cfs_periods_total"] == "7"
    assert values["container_oom_events_total"] == "1"
    assert values["container_spec_cpu_quota"] == "20000"
    assert values["container_spec_memory_limit_bytes"] == str(64 * MI)
    assert 'id="/podfit/besteffort/podu/id1"' in inside[0] or 'id="/podfit/burstable/podu/id1"' in inside[0]
    assert "machine_cpu_cores 2\n" in page


async def test_the_summary_has_the_kubelets_shape(tmp_path: Path) -> None:
    node = Node()
    reported = summary(await reader(node).read(), "n1", 8 * MI, tmp_path, node.clock.now())
    assert reported["node"]["nodeName"] == "n1"
    assert reported["node"]["memory"]["availableBytes"] == 5 * MI
    (pod,) = reported["pods"]
    assert pod["podRef"] == {"name": node.name, "namespace": "default", "uid": "u"}
    assert pod["containers"][0]["memory"]["availableBytes"] == 62 * MI
    assert "availableBytes" not in pod["memory"]


def test_probes_without_answers_make_an_empty_page() -> None:
    assert probes_page(Node().records.values()) == ""


def test_the_machines_usage_is_what_is_neither_idle_nor_free() -> None:
    files = {
        "stat": "cpu  100 0 50 1000 20 5 5 0 0 0\ncpu0 1 2 3\n",
        "meminfo": "MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 200 kB\nCached: 250 kB\nAnonPages: 90 kB\n",
    }
    usage = machine_usage(5.0, files.__getitem__)
    assert usage.cpu_nanos == 160 * 10_000_000
    assert usage.working_set_bytes == 500 * 1024
    assert usage.memory_bytes == 700 * 1024
