"""Builds the report's queries to Prometheus: label conventions, recording rules, owners. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from podfit.vpa.history.queries import PrometheusConfig, cluster_matcher, prometheus_duration, selector
from podfit.vpa.model.times import Seconds

CONVENTIONS = (
    ("namespace", "pod", "container"),
    ("namespace", "pod_name", "container_name"),
    ("exported_namespace", "exported_pod", "exported_container"),
    ("kubernetes_namespace", "kubernetes_pod_name", "container_name"),
    ("namespace", "pod_name", "name"),
)
"""Labels for namespace, pod and container: today's cAdvisor, that before 1.16, a scrape without honor_labels, and two
older set-ups."""
CPU_RULES = (
    "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_rate5m",
    "node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate",
    "namespace_pod_container:container_cpu_usage_seconds_total:sum_rate",
)
"""Recording rules for CPU rates of the usual rule sets, finest first."""
MEMORY_RULES = ("node_namespace_pod_container:container_memory_working_set_bytes",)
MOST_NAMES = 50
"""The maximum number of workloads named in a query; with more the text is too long."""


@dataclass(frozen=True, slots=True)
class SeriesNames:
    """The names in this Prometheus, and the queries that use them."""

    config: PrometheusConfig
    namespace: str = ""
    pods: str = ""
    """A pattern for pod names; "" for all."""
    cpu_rule: str = ""
    memory_rule: str = ""

    @property
    def by(self) -> str:
        config = self.config
        return f"{config.container_namespace_label}, {config.container_pod_name_label}, {config.container_name_label}"

    @property
    def matchers(self) -> str:
        text = selector(self.config, self.namespace)
        return f'{text}, {self.config.container_pod_name_label}=~"{self.pods}"' if self.pods else text

    def cpu(self, scraped_every: Seconds) -> str:
        """The query for CPU usage. If a container has several series, because it is scraped twice, the highest one
        counts."""
        window = self._window(2.5 * scraped_every)
        if self.cpu_rule:
            return f"max by ({self.by}) (avg_over_time({self.cpu_rule}{{{self.matchers}}}[{window}]))"
        return f"max by ({self.by}) (rate({self.config.history_cpu_metric}{{{self.matchers}}}[{window}]))"

    def memory(self, scraped_every: Seconds) -> str:
        metric = self.memory_rule or self.config.history_memory_metric
        return f"max by ({self.by}) (max_over_time({metric}{{{self.matchers}}}[{self._window(1.5 * scraped_every)}]))"

    def ooms(self, scraped_every: Seconds) -> str:
        counter = f"{self.config.history_oom_metric}{{{self.matchers}}}[{self._window(1.5 * scraped_every)}]"
        return f"sum by ({self.by}) (last_over_time({counter})) > 0"

    def throttled(self) -> str:
        """The query for the fraction of periods in which a container was throttled during the last day."""
        held, whole = (
            f"sum by ({self.by}) (increase(container_cpu_cfs_{name}_total{{{self.matchers}}}[1d]))"
            for name in ("throttled_periods", "periods")
        )
        return f"{held} / ({whole} > 0)"

    def count(self, metric: str = "", window: Seconds = 3600.0) -> str:
        """The query for the number of containers in an hour, or another window."""
        within = prometheus_duration(window)
        return f"count(count by ({self.by}) (last_over_time({metric or self._raw}{{{self.matchers}}}[{within}])))"

    def series(self) -> str:
        """The query for the number of containers' series, which is higher than that of containers if they are scraped
        twice."""
        return f"count({self._raw}{{{self.matchers}}})"

    def scrapes(self, window: Seconds) -> str:
        within = prometheus_duration(window)
        metric = self.memory_rule or self.config.history_memory_metric
        return f"max(count_over_time({metric}{{{self.matchers}}}[{within}]))"

    @property
    def _raw(self) -> str:
        return self.memory_rule or self.config.history_memory_metric

    def _window(self, least: Seconds) -> str:
        return prometheus_duration(max(self.config.history_resolution, math.ceil(least)))


def conventions(config: PrometheusConfig) -> Iterator[PrometheusConfig]:
    """The set-up with each label convention in turn. The job label is only matched if it was configured."""
    job = config.prometheus_cadvisor_job_name
    free = replace(
        config, prometheus_cadvisor_job_name="" if job == PrometheusConfig().prometheus_cadvisor_job_name else job
    )
    for namespace, pod, container in CONVENTIONS:
        yield replace(
            free,
            container_namespace_label=namespace,
            container_pod_name_label=pod,
            container_name_label=container,
        )


def candidates(config: PrometheusConfig, namespace: str, pods: str) -> Iterator[SeriesNames]:
    """The queries of the metrics themselves, then those of the recording rules, for each convention."""
    for convention in conventions(config):
        plain = SeriesNames(convention, namespace, pods)
        yield plain
        yield replace(plain, memory_rule=MEMORY_RULES[0], cpu_rule=CPU_RULES[0])


def pod_pattern(workloads: Iterable[tuple[str, str]]) -> str:
    """A pattern for the pods of these workloads (kind and name), deleted ones included; "" if there are too many."""
    names = {(kind == "Pod", name.replace(".", "[.]")) for kind, name in workloads}
    if not names or len(names) > MOST_NAMES:
        return ""
    bare = sorted(name for alone, name in names if alone)
    made = sorted(name for alone, name in names if not alone)
    return "|".join([*bare, *([f"({'|'.join(made)})-.+"] if made else [])])


def owners(config: PrometheusConfig, namespace: str) -> tuple[tuple[str, str, str], ...]:
    """(query, label of the owned object, kind) for pods, ReplicaSets and Jobs, over one day."""
    more = ", ".join(
        part for part in (f'namespace="{namespace}"' if namespace else "", cluster_matcher(config)) if part
    )
    queries = []
    for metric, label, kind in (
        ("kube_pod_owner", "pod", "Pod"),
        ("kube_replicaset_owner", "replicaset", "ReplicaSet"),
        ("kube_job_owner", "job_name", "Job"),
    ):
        by = f"namespace, {label}, owner_kind, owner_name"
        queries.append((f"count by ({by}) (last_over_time({metric}{{{more}}}[1d]))", label, kind))
    return tuple(queries)
