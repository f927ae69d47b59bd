"""Collects the inputs of a report: workloads, then usage from the best source that has some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD
from podfit.api.selectors import LabelSelector
from podfit.cli.recommending.progress import ProgressLine
from podfit.cli.targets import NoSuchTarget
from podfit.client import Client
from podfit.kit.clock import Clock
from podfit.vpa.history.base import HistoryUnavailable
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.observe.caches import WELL_KNOWN
from podfit.vpa.policies.base import Costs
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.report.cluster.owners import Owners
from podfit.vpa.report.cluster.reading import largest_node, read_workloads
from podfit.vpa.report.cluster.workloads import Key, Workload
from podfit.vpa.report.decide.findings import Prices, Report, Rules, findings, ordered
from podfit.vpa.report.decide.policies import by_policy
from podfit.vpa.report.decide.sizing import RESOURCES
from podfit.vpa.report.usage.curves import Grid
from podfit.vpa.report.usage.evidence import CHECKPOINTS, METRICS, PROMETHEUS, Known, Remarks
from podfit.vpa.report.usage.fallbacks import from_checkpoints, from_metrics
from podfit.vpa.report.usage.gathering import Gatherer
from podfit.vpa.report.usage.prometheus import NoUsage, PlannedReading, PrometheusUsage
from podfit.vpa.report.usage.promql import pod_pattern
from podfit.vpa.report.usage.saved import Saved

SOURCES = ("auto", PROMETHEUS, CHECKPOINTS, METRICS)
COMPLETE = 0.8
"""The fraction of samples since its first one that a container must have; otherwise the report is partial."""
RUN_AT_TIMES = ("CronJob", "Job")
"""Containers of these kinds do not run all the time, so their samples have gaps."""


class NothingKnown(Exception):
    """No source has usage; the message has the reason of each."""


@dataclass(frozen=True, slots=True)
class Filters:
    selector: str = ""
    kinds: frozenset[str] = frozenset()
    """Lower case; empty for all."""
    names: tuple[str, ...] = ()
    """Names or patterns with `*`, or KIND/NAME."""

    def let(self, workload: Workload) -> bool:
        key = workload.key
        if self.kinds and key.kind.lower() not in self.kinds:
            return False
        if self.names and not any(_named(key, name) for name in self.names):
            return False
        return not self.selector or LabelSelector.parse(self.selector).matches(_labels(workload))

    def check(self, every: Iterable[Key]) -> None:
        """Raises NoSuchTarget for a name that no workload has, and for a kind that does not exist."""
        keys = list(every)
        for name in self.names:
            if not any(_named(key, name) for key in keys):
                raise NoSuchTarget(f"no workload is named {name}")
        known = {kind.lower() for kind in (*WELL_KNOWN, POD.kind)} | {key.kind.lower() for key in keys}
        for kind in sorted(self.kinds - known):
            raise NoSuchTarget(f"--kind {kind}: no workload is of this kind")


def _named(key: Key, wanted: str) -> bool:
    kind, slash, name = wanted.rpartition("/")
    return (not slash or kind.lower() == key.kind.lower()) and fnmatchcase(key.name, name)


def _labels(workload: Workload) -> Object:
    whole = workload.object if workload.object is not None else workload.template
    return dict((whole.get("metadata") or {}).get("labels") or {})


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The request on the command line."""

    namespace: str = ""
    filters: Filters = field(default_factory=Filters)
    source: str = "auto"
    prometheus: PrometheusConfig | None = None
    sample_s: float = 120.0
    share: float = 0.5
    rules: bool = True
    model: Config = field(default_factory=Config)
    decide: Rules = field(default_factory=Rules)
    prices: Prices = field(default_factory=Prices)
    order: str = "waste"
    policy: str = "default"
    costs: Costs = field(default_factory=Costs)
    cache: Path | None = None


class Collector:
    def __init__(
        self, client: Client, request: ReportRequest, clock: Clock, progress: ProgressLine, cluster: str = ""
    ) -> None:
        self._client, self._request, self._clock, self._progress = client, request, clock, progress
        self._cluster = cluster
        self._remarks = Remarks()
        self._used: dict[str, None] = {}
        self.workloads: dict[Key, Workload] = {}

    async def report(self) -> Report:
        """Collects the report. Raises NothingKnown if no source has data about any workload."""
        request = self._request
        every = await read_workloads(self._client, request.namespace, self._remarks.notes.append)
        request.filters.check(every)
        self.workloads = {key: workload for key, workload in every.items() if request.filters.let(workload)}
        known = await self._known(every) if self.workloads else {}
        if self.workloads and not any((key, name) in known for key, name in self._wanted()):
            raise NothingKnown(
                "; ".join([*self._remarks.missing, *self._remarks.notes]) or "no source of usage was found"
            )
        known, kept = by_policy(known, request.policy, request.costs)
        if kept:
            self._remarks.notes.append(
                f"{kept} containers have the default policy's sizes: their usage over time is not known"
            )
        rows = findings(self.workloads.values(), known, request.decide)
        return Report(
            ordered(rows, request.order),
            self._cluster,
            request.policy,
            request.prices,
            self._clock.now(),
            tuple(self._used),
            tuple(self._remarks.notes),
            tuple(self._remarks.missing),
        )

    def _wanted(self) -> Iterable[tuple[Key, str]]:
        return (
            (key, container.get("name") or "")
            for key, work in self.workloads.items()
            for _, container in work.containers
        )

    async def _known(self, every: dict[Key, Workload]) -> Known:
        """Queries each source for the workloads about which the previous ones have no data."""
        source, known = self._request.source, Known()
        if source in ("auto", PROMETHEUS) and self._request.prometheus is not None:
            known = self._first(PROMETHEUS, known, await self._from_prometheus(every))
        if source in ("auto", CHECKPOINTS) and self._lacking(known):
            remarks = Remarks()
            found = await from_checkpoints(self._client, self._request.namespace, self._request.model, remarks)
            self._remarks.missing += remarks.missing
            if not found and source == CHECKPOINTS:
                self._remarks.missing.append("no autoscaler has checkpoints here")
            known = self._first(CHECKPOINTS, known, found)
        if source == METRICS or (source == "auto" and not known):
            owners = Owners(every, _pods_of(every))
            why = "".join(f"{words}; " for words in self._remarks.missing)
            self._progress.announce(f"{why}sampling metrics.k8s.io for {self._request.sample_s:g} s")
            with self._progress.of("sampling metrics.k8s.io") as seen:
                found = await from_metrics(
                    self._client, self._request.namespace, owners, self._request.model, self._request.sample_s,
                    self._clock, seen, self._remarks,
                )  # fmt: skip
            known = self._first(METRICS, known, found)
            if METRICS in self._used:
                self._remarks.notes.append(
                    f"usage was sampled for {self._request.sample_s:g} s only: other times of the day are not in it"
                )
        return known

    def _lacking(self, known: Known) -> bool:
        return any(at not in known for at in self._wanted())

    def _first(self, source: str, known: Known, more: Known) -> Known:
        wanted = set(self._wanted())
        new = {at: series for at, series in more.items() if at not in known}
        if any(at in wanted for at in new):
            self._used[source] = None
        return {**known, **new}

    # --- Prometheus

    async def _from_prometheus(self, every: dict[Key, Workload]) -> Known:
        request, config = self._request, self._request.prometheus
        assert config is not None
        pattern = ""
        if len(self.workloads) < len(every):
            pattern = pod_pattern((key.kind, key.name) for key in self.workloads)
        questions = f"{config.prometheus_address} {config.prometheus_cluster_label} {request.namespace} {pattern}"
        questions += f" {config.prometheus_bearer_token_file} {request.rules}"
        saved = Saved(request.cache, questions, config.history_length) if request.cache is not None else None
        usage = PrometheusUsage(config, self._clock, share=request.share, saved=saved)
        try:
            plan = await usage.plan(self._clock.now(), request.namespace, pattern, request.rules)
            return await self._read(usage, plan, every)
        except (NoUsage, HistoryUnavailable) as error:
            usage.remarks.missing.append(str(error))
            return {}
        finally:
            self._remarks.notes += usage.remarks.notes
            self._remarks.missing += usage.remarks.missing
            await usage.close()

    async def _read(self, usage: PrometheusUsage, plan: PlannedReading, every: dict[Key, Workload]) -> Known:
        recorded, above = await usage.owners(plan)
        owners = Owners(every, _pods_of(every), recorded, above)
        step = plan.series_names.config.history_resolution
        grid = Grid(plan.start, step, round((plan.until - plan.start) / step) + 1)
        gatherer = Gatherer(owners, self._request.model, grid, await largest_node(self._client))
        with self._progress.of("reading usage from Prometheus") as seen:
            async for batch in usage.read(plan, seen):
                gatherer.take(batch)
        known = gatherer.known(PROMETHEUS, grid.points)
        for (namespace, pod, container), part in (await usage.throttled(plan)).items():
            key = owners.of(namespace, pod)
            if key is not None and (at := (key, container)) in known:
                known[at] = replace(known[at], throttled=max(part, known[at].throttled or 0.0))
        self._note_anomalies(gatherer, known, plan)
        return known

    def _note_anomalies(self, gatherer: Gatherer, known: Known, plan: PlannedReading) -> None:
        notes = self._remarks.notes
        if gatherer.unknown_pods:
            pod = "/".join(next(iter(gatherer.unknown_pods)))
            count = len(gatherer.unknown_pods)
            which = f"1 pod in Prometheus belongs to no workload of this cluster ({pod})"
            if count > 1:
                which = f"{count} pods in Prometheus belong to no workload of this cluster (such as {pod})"
            if known:
                notes.append(f"{which}: left out")
            else:
                self._remarks.missing.append(
                    f"{which}: is it the Prometheus of another cluster, or are pods relabelled?"
                )
        if gatherer.impossible:
            notes.append(f"{gatherer.impossible} samples are above what any node has: left out")
        steady = [series.last for (key, _), series in known.items() if key.kind not in RUN_AT_TIMES]
        newest = max(steady, default=0.0)
        if steady and self._clock.now() - newest > max(3600.0, 3 * plan.series_names.config.history_resolution):
            hours = (self._clock.now() - newest) / 3600
            self._remarks.missing.append(f"the newest sample in Prometheus is {hours:.1f} hours old")
        wanted = {at: known[at] for at in self._wanted() if at in known}
        gappy = _counted(
            at for at, series in wanted.items() if series.coverage < COMPLETE and at[0].kind not in RUN_AT_TIMES
        )
        if gappy:
            self._remarks.missing.append(f"of {gappy} less than {COMPLETE:.0%} of the samples are there")
        for name in RESOURCES:
            if found := _counted(at for at, series in wanted.items() if name not in series.used):
                self._remarks.missing.append(f"of {found} no {name} sample can be used")


def _counted(containers: Iterable[tuple[Key, str]]) -> str:
    """The number of items and the first few of them, as text; "" for none."""
    names = sorted(f"{key} {container}" for key, container in containers)
    if not names:
        return ""
    return f"{names[0]}" if len(names) == 1 else f"{len(names)} containers (such as {names[0]})"


def _pods_of(every: dict[Key, Workload]) -> dict[tuple[str, str], Key]:
    return {
        (key.namespace, (pod.get("metadata") or {}).get("name") or ""): key
        for key, workload in every.items()
        for pod in workload.pods
    }
