"""`podfit recommend` on a real Prometheus with eight days of history and podfit's API server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.autoscaling import Autoscaled, autoscaled
from tests.support.servers.cadvisor import History
from tests.support.servers.prometheus import Prometheus, backfill, installed

from podfit.api.registry.kinds import kind_named
from podfit.cli.commands.workloads.recommend import POLICY_NAMES
from podfit.cli.recommending.collecting import Collector, Filters, NothingKnown, ReportRequest
from podfit.cli.recommending.page import as_page
from podfit.cli.recommending.patching.patches import changes, diff, files
from podfit.cli.recommending.progress import ProgressLine
from podfit.cli.recommending.texts import as_csv, as_data, as_table, summary
from podfit.client.rest import STRATEGIC
from podfit.kit.clock import FakeClock
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.policies.table import POLICIES
from podfit.vpa.report.cluster.workloads import Key
from podfit.vpa.report.decide.findings import Finding, Prices, Report
from podfit.vpa.report.usage.evidence import CHECKPOINTS
from podfit.vpa.report.usage.promql import CONVENTIONS

pytestmark = pytest.mark.skipif(not installed(), reason="prometheus and promtool are not installed")
MI = 1 << 20
GONE = "web-7d9f8c6b5-x2x4z"


def ordinary(end: int, labels: tuple[str, str, str] = CONVENTIONS[0], more: str = "") -> History:
    history = History(end, labels, more)
    for pod in ("web-1-0", "web-1-1"):
        history.usage(pod, 0.5, 300 * MI)
    history.usage(GONE, 0.8, 700 * MI, end=end - 3 * 86400)
    history.usage("idle-1-0", 0.01, 20 * MI)
    return history


class Setting:
    """A cluster and a Prometheus."""

    def __init__(self, cluster: Autoscaled, folder: Path, end: int) -> None:
        self.cluster, self.folder, self.end = cluster, folder, end
        self._running: list[Prometheus] = []

    async def serve(self, history: History) -> str:
        backfill(self.folder, history.lines())
        made = Prometheus(self.folder)
        await made.start()
        self._running.append(made)
        return made.url

    async def stop(self) -> None:
        for item in self._running:
            await item.stop()

    def collector(self, url: str, **more: Any) -> Collector:
        config = PrometheusConfig(prometheus_address=url, prometheus_queries_per_second=0)
        asked = replace(ReportRequest("default", prometheus=config if url else None, share=1.0), **more)
        return Collector(self.cluster.client, asked, self.cluster.clock, ProgressLine(shown=False), "a cluster")

    async def report(self, url: str, **more: Any) -> Report:
        return await self.collector(url, **more).report()


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    end = int(time.time()) // 3600 * 3600
    folder = tmp_path / "prometheus"
    folder.mkdir()
    async with autoscaled(tmp_path / "server", FakeClock(float(end))) as cluster:
        await cluster.deployment("web", 2, cpu="2", memory="1Gi", limits={"memory": "2Gi"})
        await cluster.deployment("idle", 1, cpu="1", memory="4Gi")
        made = Setting(cluster, folder, end)
        yield made
        await made.stop()


class Interrupted(Exception):
    pass


class Interrupting(ProgressLine):
    """Interrupts the reading after some parts."""

    def __init__(self, after: int) -> None:
        super().__init__(shown=False)
        self._after = after

    @contextmanager
    def of(self, what: str) -> Iterator[Callable[[int, int, int], None]]:
        def seen(done: int, whole: int, samples: int) -> None:
            if done == self._after:
                raise Interrupted

        yield seen


def of(report: Report, name: str, container: str = "main") -> Finding:
    [found] = [finding for finding in report.findings if (finding.key.name, finding.container) == (name, container)]
    return found


async def test_sizes_waste_and_confidence_come_from_eight_days_of_all_pods(setting: Setting) -> None:
    report = await setting.report(await setting.serve(ordinary(setting.end)), prices=Prices(0.03, 0.004))
    web, idle = of(report, "web"), of(report, "idle")
    assert not report.missing and report.sources == ("prometheus",)
    assert web.evidence is not None and web.evidence.pods == 3, "the pod that is gone counts, too"
    assert 500 < web.recommended.requests["cpu"] < 1000
    assert web.evidence.used["memory"] == 700 * MI
    assert web.recommended.limits["memory"] >= 700 * MI
    assert idle.recommended.requests["cpu"] == 25 and idle.recommended.requests["memory"] == 250 * MI
    assert idle.wasted("cpu") == 975 and web.evidence.confidence == "high"
    assert report.findings[0] is max(report.findings, key=lambda finding: finding.waste)
    assert (
        report.monthly == pytest.approx(sum(finding.monthly(report.prices) or 0 for finding in report.findings))
        and report.monthly > 0
    )


@pytest.mark.parametrize("labels", CONVENTIONS[1:3], ids=lambda labels: labels[1])
async def test_other_label_conventions_are_found(setting: Setting, labels: tuple[str, str, str]) -> None:
    more = 'pod="cadvisor-1",namespace="kube-system",container="cadvisor"' if "exported" in labels[0] else ""
    history = ordinary(setting.end, labels, more)
    report = await setting.report(await setting.serve(history))
    assert of(report, "web").evidence is not None and of(report, "idle").recommended.requests


async def test_a_recorded_rule_takes_the_place_of_the_counter(setting: Setting) -> None:
    history = ordinary(setting.end)
    rule = "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate"
    for pod in ("web-1-0", "web-1-1", "idle-1-0"):
        series = f'namespace="default",pod="{pod}",container="main"'
        history.add(f"# TYPE {rule} gauge", *(f"{rule}{{{series}}} 1.5 {at}" for at in history.instants))
    url = await setting.serve(history)
    report = await setting.report(url)
    assert of(report, "web").recommended.requests["cpu"] > 1500
    assert any(rule in note for note in report.notes)
    without = await setting.report(url, rules=False)
    assert of(without, "web").recommended.requests["cpu"] < 1000


async def test_pods_that_are_gone_are_found_by_what_kube_state_metrics_recorded(setting: Setting) -> None:
    history = ordinary(setting.end)
    history.usage("zzz", 0.5, 900 * MI, end=setting.end - 86400)
    owner = 'namespace="default",pod="zzz",owner_kind="ReplicaSet",owner_name="idle-abc"'
    history.add("# TYPE kube_pod_owner gauge", *(f"kube_pod_owner{{{owner}}} 1 {at}" for at in history.instants))
    above = 'namespace="default",replicaset="idle-abc",owner_kind="Deployment",owner_name="idle"'
    history.add(
        "# TYPE kube_replicaset_owner gauge", *(f"kube_replicaset_owner{{{above}}} 1 {at}" for at in history.instants)
    )
    report = await setting.report(await setting.serve(history))
    idle = of(report, "idle").evidence
    assert idle is not None and idle.used["memory"] == 900 * MI


async def test_kills_and_throttling_are_risks_and_raise_sizes(setting: Setting) -> None:
    await setting.cluster.deployment("slow", 1, cpu="500m", memory="100Mi", limits={"cpu": "500m", "memory": "100Mi"})
    history = ordinary(setting.end)
    history.usage("slow-1-0", 0.45, 95 * MI)
    series = 'namespace="default",pod="slow-1-0",container="main"'
    for name, every in (("periods", 1.0), ("throttled_periods", 0.5)):
        lines = (
            f"container_cpu_cfs_{name}_total{{{series}}} {every * (at - history.instants[0])} {at}"
            for at in history.instants
        )
        history.add(f"# TYPE container_cpu_cfs_{name} counter", *lines)
    oom = (f"container_oom_events_total{{{series}}} {int(at > setting.end - 86400)} {at}" for at in history.instants)
    history.add("# TYPE container_oom_events counter", *oom)
    slow = of(await setting.report(await setting.serve(history)), "slow")
    assert slow.risks == ("OOM-killed", "throttled")
    assert slow.evidence is not None and slow.evidence.ooms == 1
    assert slow.evidence.throttled == pytest.approx(0.5, abs=0.01)
    assert slow.recommended.limits["cpu"] >= 750 and slow.recommended.limits["memory"] > 100 * MI
    assert slow.recommended.requests == slow.recommended.limits, "the QoS class stays"


async def test_series_of_two_scrapes_are_one_container(setting: Setting) -> None:
    history = History(setting.end)
    for job in ("a", "b"):
        for pod in ("web-1-0", "web-1-1"):
            history.usage(pod, 0.5, 300 * MI, more=f'job="{job}"')
    report = await setting.report(await setting.serve(history))
    assert 500 < of(report, "web").recommended.requests["cpu"] < 700
    assert any("scraped more than once" in note for note in report.notes)


async def test_wrong_numbers_are_left_out_and_counted(setting: Setting) -> None:
    history = ordinary(setting.end)
    bad = 'namespace="default",pod="idle-1-0",container="main",id="other"'
    head = "# TYPE container_memory_working_set_bytes gauge"
    history.add(head, f"container_memory_working_set_bytes{{{bad}}} 9e+14 {setting.end - 7200}")
    history.add(head, *(f"container_memory_working_set_bytes{{{bad}}} NaN {at}" for at in history.instants[-20:-10]))
    report = await setting.report(await setting.serve(history))
    idle = of(report, "idle").evidence
    assert idle is not None and idle.used["memory"] == 20 * MI
    assert any("above what any node has" in note for note in report.notes)


async def test_a_resource_without_a_usable_sample_is_unknown_and_no_zero(setting: Setting) -> None:
    history = History(setting.end)
    for pod in ("web-1-0", "web-1-1", "idle-1-0"):
        history.usage(pod, 0.5, float("nan"))
    report = await setting.report(await setting.serve(history), prices=Prices(0.03, 0.004))
    assert any("of 2 containers (such as default/deployment/idle main) no memory" in item for item in report.missing)
    assert report.total("memory") is None and of(report, "web").monthly(report.prices) is None
    assert of(report, "web").monthly(Prices(cpu=0.03)) == pytest.approx(2 * (2 - 0.58) * 0.03 * 730, rel=0.05)
    assert as_data(report)["wasted"]["memory"] is None and as_data(report)["monthlyCost"] is None
    assert "and ? GiB wasted (? a month)" in summary(report)
    assert ">? GiB<" in as_page(report) and ">0.0 GiB<" not in as_page(report)
    row = next(line for line in as_table(report, False, False).splitlines() if "/web" in line).split()
    assert row[-4:-2] == ["?", "?"] or row.count("?") >= 3, row


async def test_gaps_make_the_report_partial_and_name_the_container(setting: Setting) -> None:
    history = History(setting.end)
    history.usage("web-1-0", 0.5, 300 * MI)
    history.usage("idle-1-0", 0.1, 20 * MI, end=setting.end - 6 * 86400)
    history.usage("idle-1-0", 0.1, 20 * MI, begin=setting.end - 86400)
    report = await setting.report(await setting.serve(history))
    assert report.missing == ("of default/deployment/idle main less than 80% of the samples are there",)


async def test_a_job_that_runs_at_times_does_not_make_the_report_partial(setting: Setting) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    kind = kind_named("CronJob")
    nightly = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "nightly"}, "spec": spec}
    await setting.cluster.admin.create(kind, nightly, "default")
    history = ordinary(setting.end)
    for day in range(8):
        begin = setting.end - 3600 - day * 86400
        history.usage(f"nightly-2937{day}000-bcdfg", 0.5, 300 * MI, begin=begin, end=begin + 3600)
    report = await setting.report(await setting.serve(history))
    assert not report.missing and of(report, "nightly").recommended.requests["cpu"] > 400


async def test_the_page_names_what_is_far_above_the_curve_and_draws_what_fits(setting: Setting) -> None:
    page = as_page(await setting.report(await setting.serve(ordinary(setting.end))))
    assert "↑ request 4Gi</text>" in page
    assert page.count('<line class="fits"') == page.count('class="chart"') == 4
    assert page.index('<a href="#c') < page.index('id="c')


async def test_a_renamed_container_has_no_size_and_reports_it(setting: Setting) -> None:
    history = History(setting.end)
    history.usage("web-1-0", 0.5, 300 * MI)
    history.usage("idle-1-0", 0.5, 300 * MI, container="old", end=setting.end - 86400)
    report = await setting.report(await setting.serve(history))
    idle = of(report, "idle")
    assert not idle.recommended.requests and idle.wasted("cpu") is None
    assert any("old, since deleted" in note and "renamed?" in note for note in idle.notes)
    assert ",,," in as_csv(report), "what is not known is an empty cell"
    assert as_data(report)["containers"][-1]["recommended"] is None or report.without == 1


async def test_a_prometheus_of_another_cluster_is_an_error_that_names_the_cause(setting: Setting) -> None:
    history = History(setting.end)
    history.usage("elsewhere-1", 0.5, 300 * MI)
    with pytest.raises(NothingKnown, match="belongs to no workload of this cluster .*another cluster"):
        await setting.report(await setting.serve(history), source="prometheus")


async def test_a_prometheus_without_container_metrics_is_an_error_that_names_the_metric(setting: Setting) -> None:
    history = History(setting.end)
    history.add("# TYPE up gauge", f"up 1 {setting.end}")
    with pytest.raises(NothingKnown, match="has no container_memory_working_set_bytes: does it scrape cAdvisor"):
        await setting.report(await setting.serve(history), source="prometheus")


async def test_a_history_shorter_than_a_step_is_named(setting: Setting) -> None:
    history = History(setting.end + 1500)
    history.usage("web-1-0", 0.5, 300 * MI, begin=setting.end + 300)
    url = await setting.serve(history)
    await setting.cluster.clock.advance(1500)
    with pytest.raises(NothingKnown, match=f"{url} has no sample of these containers before .*history is too short"):
        await setting.report(url, source="prometheus")


async def test_old_samples_make_the_report_partial(setting: Setting) -> None:
    history = History(setting.end)
    history.usage("web-1-0", 0.5, 300 * MI, end=setting.end - 2 * 86400)
    report = await setting.report(await setting.serve(history))
    assert any("newest sample in Prometheus is 4" in item and "hours old" in item for item in report.missing)


async def test_filters_choose_workloads_by_kind_name_and_label(setting: Setting) -> None:
    url = await setting.serve(ordinary(setting.end))
    for filters in (Filters(names=("we*",)), Filters(names=("deployment/web",))):
        report = await setting.report(url, filters=filters)
        assert {finding.key.name for finding in report.findings} == {"web"} and of(report, "web").recommended.requests
    assert not (await setting.report(url, filters=Filters(kinds=frozenset(["statefulset"])))).findings


async def test_an_interrupted_reading_resumes_where_it_stopped(setting: Setting, tmp_path: Path) -> None:
    url = await setting.serve(ordinary(setting.end))
    cache = tmp_path / "cache"
    whole = await setting.report(url)
    collector = setting.collector(url, cache=cache)

    collector._progress = Interrupting(after=3)
    with pytest.raises(Interrupted):
        await collector.report()
    again = await setting.report(url, cache=cache)
    assert any("3 parts were read in an earlier run" in note for note in again.notes)
    assert of(again, "web").recommended == of(whole, "web").recommended
    assert not list(cache.glob("*/*.npz")), "a complete reading leaves nothing behind"


async def test_kills_from_before_the_first_sample_and_before_an_interruption_count_once(
    setting: Setting, tmp_path: Path
) -> None:
    history = History(setting.end)
    history.instants = history.instants[3 * 288 :]
    history.usage("web-1-0", 0.5, 300 * MI)
    series = 'namespace="default",pod="web-1-0",container="main"'
    killed = setting.end - 4 * 86400
    lines = (f"container_oom_events_total{{{series}}} {7 + int(at > killed)} {at}" for at in history.instants)
    history.add("# TYPE container_oom_events counter", *lines)
    url = await setting.serve(history)
    collector = setting.collector(url, cache=tmp_path / "cache")
    collector._progress = Interrupting(after=6)
    with pytest.raises(Interrupted):
        await collector.report()
    for report in (await setting.report(url), await setting.report(url, cache=tmp_path / "cache")):
        web = of(report, "web").evidence
        assert web is not None and web.ooms == 1


async def test_the_containers_of_a_cronjob_are_found_though_they_run_for_an_hour_a_day(setting: Setting) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}}
    meta = {"name": "nightly", "namespace": "default"}
    job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec}
    await setting.cluster.client.create(kind_named("CronJob"), job)
    history = History(setting.end)
    for day in range(1, 8):
        begin = setting.end - day * 86400 + 7200
        history.usage(f"nightly-{29300000 + day}-bcdfg", 0.5, 300 * MI, begin=begin, end=begin + 3600)
    report = await setting.report(await setting.serve(history), filters=Filters(kinds=frozenset({"cronjob"})))
    nightly = of(report, "nightly").recommended.requests
    assert nightly["memory"] >= 300 * MI
    assert 500 <= nightly["cpu"] < 700, "the average of its runs, not of whole days"
    assert not report.missing


async def test_patches_and_diffs_name_what_changes(setting: Setting) -> None:
    collector = setting.collector(await setting.serve(ordinary(setting.end)))
    report = await collector.report()
    changed = changes(report.findings, collector.workloads, 0.1, "medium")
    made, left = files(changed)
    assert not left and set(made) == {
        "default-deployment-idle.yaml",
        "default-deployment-web.yaml",
    }
    patch = made["default-deployment-idle.yaml"]
    assert patch["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "25m"
    [words] = [diff(item) for item in changed if item.key.name == "idle"]
    assert "-      memory: 4Gi" in words and "+      memory: 250Mi" in words
    web = kind_named("Deployment")
    key = Key("default", "Deployment", "web")
    await setting.cluster.admin.patch(web, *key[::2], made["default-deployment-web.yaml"], content_type=STRATEGIC)


async def test_checkpoints_answer_where_there_is_no_prometheus(setting: Setting) -> None:
    from podfit.api.registry.kinds import VPA_CHECKPOINT
    from podfit.vpa.recommender.decide.config import Config
    from podfit.vpa.recommender.decide.histograms.aggregate import AggregateState

    await setting.cluster.vpa("web", "web")
    state = AggregateState(Config())
    for at in range(0, 2 * 86400, 60):
        state.add_cpu(500, setting.end - 2 * 86400 + at)
    state.add_peak(300 * MI, float(setting.end))
    spec = {"vpaObjectName": "web", "containerName": "main"}
    kind = {"apiVersion": VPA_CHECKPOINT.api_version, "kind": VPA_CHECKPOINT.kind}
    made = {**kind, "metadata": {"name": "web-main"}, "spec": spec, "status": state.save(setting.end)}
    await setting.cluster.admin.create(VPA_CHECKPOINT, made, "default")
    report = await setting.report("")
    web = of(report, "web")
    assert report.sources == (CHECKPOINTS,) and web.evidence is not None
    assert web.recommended.requests["cpu"] > 500 and of(report, "idle").evidence is None
    assert "? " in as_table(report, False, False) or "→ ?" in as_table(report, False, False)


async def test_metrics_are_sampled_if_there_is_no_other_source(
    setting: Setting, capsys: pytest.CaptureFixture[str]
) -> None:
    for pod in ("web-1-0", "web-1-1", "idle-1-0"):
        setting.cluster.metered.usage["default", pod] = {"main": ("300m", "200Mi")}
    report = await setting.report("", sample_s=0.0, namespace="")
    assert report.sources == ("metrics",) and of(report, "web").evidence is not None
    assert of(report, "web").recommended.requests["cpu"] > 300
    assert any("sampled for 0 s only" in note for note in report.notes)
    assert "sampling metrics.k8s.io for 0 s" in capsys.readouterr().err, "said before it takes minutes"


async def test_the_total_waste_is_unknown_and_not_zero_without_data(setting: Setting) -> None:
    setting.cluster.metered.usage["default", "web-1-0"] = {"main": ("300m", "200Mi")}
    report = await setting.report("", sample_s=0.0, namespace="")
    assert "?" not in summary(report)
    for finding in report.findings:
        finding.recommended.requests.pop("memory", None)
    assert "cores and ? GiB wasted" in summary(report)


async def test_a_cluster_without_any_metrics_is_an_error(setting: Setting) -> None:
    with pytest.raises(NothingKnown, match="no autoscaler has checkpoints"):
        await setting.report("", source="checkpoints")


@pytest.mark.parametrize("policy", sorted(POLICIES))
async def test_every_policy_gives_sizes_that_cover_steady_use(setting: Setting, policy: str) -> None:
    report = await setting.report(await setting.serve(ordinary(setting.end)), policy=policy)
    web = of(report, "web")
    assert report.policy == policy and web.evidence is not None and web.evidence.policy == policy
    assert 400 <= web.recommended.requests["cpu"] <= 2000
    assert 250 * MI <= web.recommended.requests["memory"] <= 2048 * MI
    assert policy == "default" or any(f"policy {policy}" in why for why in web.why)


def test_the_policies_that_the_command_names_are_those_there_are() -> None:
    assert set(POLICY_NAMES) == set(POLICIES)
