"""The rows of a report: one per container, with its sizes, the recommended ones, waste and risks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.autoscalers import container, oom

from podfit.api.objects import Object
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.report.cluster.workloads import Key, Workload
from podfit.vpa.report.decide.findings import Finding, Prices, Report, Rules, findings, ordered
from podfit.vpa.report.decide.sizing import ContainerSizes
from podfit.vpa.report.usage.evidence import PROMETHEUS, Evidence, Known

KEY = Key("ns", "Deployment", "web")
GI = 1 << 30
EVIDENCE = Evidence(PROMETHEUS, size=Estimate({"cpu": 100, "memory": GI}, {}, {}), used={"memory": GI // 2})


def pod(cpu: str, *statuses: Object) -> Object:
    return {"spec": {"containers": [container(requests={"cpu": cpu})]}, "status": {"containerStatuses": list(statuses)}}


def workload(*pods: Object, cpu: str = "1", **more: Any) -> Workload:
    return Workload(KEY, {}, {"spec": {"containers": [container(requests={"cpu": cpu}, **more)]}}, list(pods))


def one(given: Workload, known: Known | None = None) -> Finding:
    [found] = findings([given], {(KEY, "app"): EVIDENCE} if known is None else known, Rules())
    return found


def finding(now: int = 1000, fits: int = 100, replicas: int = 2, **more: Any) -> Finding:
    return Finding(
        KEY, "app", "containers", replicas, ContainerSizes({"cpu": now}), ContainerSizes({"cpu": fits}), None, **more
    )


def test_waste_is_what_all_pods_request_and_do_not_need() -> None:
    assert finding().wasted("cpu") == 1800 and finding(now=50).wasted("cpu") == -100
    assert finding().wasted("memory") is None
    assert finding(now=50).waste == 0.0 and finding().waste == pytest.approx(1.8 * 7.5)
    assert finding().monthly(Prices(cpu=0.1)) == pytest.approx(1.8 * 0.1 * 730)


@pytest.mark.parametrize(("fits", "changed"), [(1000, False), (901, False), (899, True), (1101, True)])
def test_only_sizes_that_are_off_are_worth_changing(fits: int, changed: bool) -> None:
    assert bool(finding(fits=fits).changes(0.1).requests) is changed


def test_the_sizes_of_now_are_those_that_all_pods_were_resized_to() -> None:
    assert one(workload(pod("1"))).now.requests == {"cpu": 1000}
    resized = one(workload(pod("2"), pod("2")))
    assert resized.now.requests == {"cpu": 2000}
    assert resized.notes == ("pods were resized in place: the template still has the old sizes",)
    mixed = one(workload(pod("1"), pod("2")))
    assert mixed.now.requests == {"cpu": 1000} and mixed.notes == ("pods differ in size: the template's is shown",)


def test_a_container_without_usage_gets_no_size_and_a_note() -> None:
    found = one(workload(), {})
    assert found.recommended == ContainerSizes() and found.notes == ("no usage of app is known: no recommendation",)


def test_a_container_that_was_renamed_is_recognised() -> None:
    found = one(workload(), {(KEY, "old"): replace(EVIDENCE, last=1_700_000_000.0)})
    assert found.notes == ("no usage of app; old, since deleted, was measured until 2023-11-14T22:13:20Z: renamed?",)


def test_a_pod_that_ran_out_of_memory_is_a_risk() -> None:
    assert one(workload(pod("1", oom()))).risks == ("OOM-killed",)


def test_settings_of_runtimes_are_heeded_if_so_configured() -> None:
    java = workload(command=["java", "-Xmx4g"])
    assert one(java).heap is not None
    [without] = findings([java], {(KEY, "app"): EVIDENCE}, Rules(runtimes=False))
    assert without.heap is None and without.recommended.requests["memory"] == GI


def test_a_report_sums_up_waste_and_shortage_apart() -> None:
    report = Report([finding(), finding(now=50), finding(risks=("throttled",))], "c", "default", Prices(cpu=1.0), 0.0)
    assert (report.total("cpu"), report.short("cpu")) == (3600, 100)
    assert (report.without, report.at_risk) == (0, 1)
    assert report.monthly == pytest.approx(3.5 * 730)


def test_the_cost_of_waste_is_unknown_if_nothing_of_a_priced_resource_is_known() -> None:
    assert Report([finding()], "c", "default", Prices(cpu=1.0, memory=1.0), 0.0).monthly is None


@pytest.mark.parametrize(("by", "names"), [("name", "abc"), ("waste", "bca"), ("cpu", "bca"), ("risk", "cba")])
def test_findings_are_in_the_requested_order(by: str, names: str) -> None:
    rows = [
        replace(finding(now=200), container="a"),
        replace(finding(now=900), container="b"),
        replace(finding(now=500, risks=("throttled",)), container="c"),
    ]
    assert "".join(row.container for row in ordered(rows, by)) == names


@pytest.mark.parametrize(("target", "noted"), [({"cpu": 100, "memory": GI}, True), ({"cpu": 100}, False)])
def test_a_restart_is_noted_for_a_heap_whose_memory_is_resized(target: dict[str, int], noted: bool) -> None:
    evidence = replace(EVIDENCE, size=Estimate(target, {}, {}))
    found = one(workload(command=["java", "-Xmx512m"]), {(KEY, "app"): evidence})
    assert any("restart" in note for note in found.notes) is noted


def test_an_out_of_memory_kill_of_a_sidecar_is_a_risk() -> None:
    sidecar = {**container(requests={"cpu": "1"}), "restartPolicy": "Always"}
    killed = {"spec": {"initContainers": [sidecar]}, "status": {"initContainerStatuses": [oom()]}}
    given = Workload(KEY, {}, {"spec": {"initContainers": [sidecar]}}, [killed])
    assert one(given).risks == ("OOM-killed",)
