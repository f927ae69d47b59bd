"""Builds the queries to Prometheus, and estimates how many samples each returns. Pure.

Label names differ between set-ups. The flags set them; names left at upstream's defaults are tried first unchanged,
then as in today's cAdvisor and kube-state-metrics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from podfit.vpa.model.times import Seconds

_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class PrometheusConfig:
    """The settings for Prometheus, named as upstream's flags; fields below the blank line are podfit's own."""

    prometheus_address: str = "http://prometheus.monitoring.svc"
    prometheus_insecure: bool = False
    prometheus_cadvisor_job_name: str = "kubernetes-cadvisor"
    history_length: float = 8 * 86400.0
    history_resolution: float = 3600.0
    history_cpu_metric: str = "container_cpu_usage_seconds_total"
    history_memory_metric: str = "container_memory_working_set_bytes"
    prometheus_query_timeout: float = 300.0
    pod_label_prefix: str = "pod_label_"
    metric_for_pod_labels: str = 'up{job="kubernetes-pods"}'
    pod_namespace_label: str = "kubernetes_namespace"
    pod_name_label: str = "kubernetes_pod_name"
    container_namespace_label: str = field(default="namespace", metadata={"flag": "container-namespace-label"})
    container_pod_name_label: str = "pod_name"
    container_name_label: str = "name"
    username: str = ""
    password: str = ""
    prometheus_bearer_token: str = ""
    prometheus_bearer_token_file: str = ""

    prometheus_cluster_label: str = ""
    """`name=value`: only series with this label, for a Prometheus that serves several clusters."""
    prometheus_max_samples: int = 500_000
    """The maximum number of samples per query; longer periods are queried in parts."""
    prometheus_queries_per_second: float = 20.0
    history_oom_metric: str = "container_oom_events_total"


STEPS = (300.0, 600.0, 900.0, 1800.0)
MOST_SAMPLES = 1_000_000
"""The number of samples that the whole history should not exceed, if a coarser resolution is possible."""
OWN_OOM_METRIC = "podfit_container_oom_kills_total"
MODERN = {
    "container_pod_name_label": "pod",
    "container_name_label": "container",
    "prometheus_cadvisor_job_name": "",
}
STATE_METRICS = {
    "metric_for_pod_labels": "kube_pod_labels",
    "pod_label_prefix": "label_",
    "pod_namespace_label": "namespace",
    "pod_name_label": "pod",
}


def spellings(config: PrometheusConfig) -> Iterator[PrometheusConfig]:
    """The set-up as configured, then variants of the names left at their defaults."""
    default = PrometheusConfig()
    yield config
    free = {name: value for name, value in MODERN.items() if getattr(config, name) == getattr(default, name)}
    names = {name: value for name, value in free.items() if name != "prometheus_cadvisor_job_name"}
    if names:
        yield replace(config, **names)  # type: ignore[arg-type]
    if free != names:
        yield replace(config, **free)  # type: ignore[arg-type]


def label_spellings(config: PrometheusConfig) -> Iterator[PrometheusConfig]:
    default = PrometheusConfig()
    yield config
    if all(getattr(config, name) == getattr(default, name) for name in STATE_METRICS):
        yield replace(config, **STATE_METRICS)  # type: ignore[arg-type]


def cluster_matcher(config: PrometheusConfig) -> str:
    name, equals, value = config.prometheus_cluster_label.partition("=")
    return f'{name}="{_quoted(value)}"' if equals else ""


def selector(config: PrometheusConfig, namespace: str = "") -> str:
    """The label matchers that select containers, in upstream's order and spelling."""
    parts = []
    if config.prometheus_cadvisor_job_name:
        parts.append(f'job="{_quoted(config.prometheus_cadvisor_job_name)}"')
    parts.append(f'{config.container_pod_name_label}=~".+"')
    parts.append(f'{config.container_name_label}!="POD"')
    parts.append(f'{config.container_name_label}!=""')
    if namespace:
        parts.append(f'{config.container_namespace_label}="{_quoted(namespace)}"')
    if config.prometheus_cluster_label:
        parts.append(cluster_matcher(config))
    return ", ".join(part for part in parts if part)


def cpu_query(config: PrometheusConfig, namespace: str = "", scraped_every: Seconds = 0) -> str:
    """The query for CPU usage. A rate needs two scrapes in its window, which is a little longer because scrape times
    vary."""
    window = prometheus_duration(max(config.history_resolution, math.ceil(2.5 * scraped_every)))
    return f"rate({config.history_cpu_metric}{{{selector(config, namespace)}}}[{window}])"


def memory_query(config: PrometheusConfig, namespace: str = "", scraped_every: Seconds = 0) -> str:
    """The query for the peak memory usage of each step, so that no peak between two samples is lost."""
    window = prometheus_duration(max(config.history_resolution, math.ceil(1.5 * scraped_every)))
    return f"max_over_time({config.history_memory_metric}{{{selector(config, namespace)}}}[{window}])"


def oom_query(config: PrometheusConfig, namespace: str = "", scraped_every: Seconds = 0) -> str:
    """The query for the OOM-kill counters themselves: an increase over windows would miss kills between the windows."""
    window = prometheus_duration(max(config.history_resolution, math.ceil(1.5 * scraped_every)))
    return f"last_over_time({config.history_oom_metric}{{{selector(config, namespace)}}}[{window}]) > 0"


def scrapes_query(config: PrometheusConfig, namespace: str = "", window: Seconds = 3600.0) -> str:
    """The query for the maximum number of scrapes of a container within the window."""
    within = prometheus_duration(window)
    return f"max(count_over_time({config.history_memory_metric}{{{selector(config, namespace)}}}[{within}]))"


def interval_of(scrapes: float, window: Seconds) -> Seconds:
    """The scrape interval, from the number of scrapes in a window: the roundest number that fits.

    Between the first and the last of n scrapes are n - 1 intervals, and the window may begin and end between scrapes.
    """
    least, most = window / scrapes, window / (scrapes - 1)
    for unit in (900, 600, 300, 120, 60, 30, 15, 10, 5):
        if (found := math.ceil(least / unit) * unit) <= most:
            return float(found)
    return math.ceil(least)


def own_oom_query(config: PrometheusConfig, namespace: str = "") -> str:
    """The query that finds out whether podfit's nodes are scraped, whose kill counter survives the killed container."""
    counter = f"{OWN_OOM_METRIC}{{{selector(config, namespace)}}}"
    return f"count(last_over_time({counter}[{prometheus_duration(config.history_length)}]))"


def resolution(config: PrometheusConfig, scraped_every: Seconds, series: int) -> Seconds:
    """The resolution to query: as fine as the data and the number of samples allow.

    A configured resolution is used, unless scrapes are further apart. Otherwise it is at most half an hour, so that a
    peak of an hour is read in full whenever it begins.
    """
    if config.history_resolution != PrometheusConfig().history_resolution:
        return max(config.history_resolution, scraped_every)
    for step in STEPS:
        few = 2 * series * config.history_length / step <= MOST_SAMPLES
        if step >= 4 * scraped_every and (few or step == STEPS[-1]):
            return step
    return max(config.history_resolution, 2 * scraped_every)


def labels_query(config: PrometheusConfig, length: Seconds) -> str:
    """The query for every set of labels that a pod had, one sample each, as an instant vector. Upstream's query lacks
    the range that it needs."""
    query = re.sub(r"\[[^\]]*\]\s*$", "", config.metric_for_pod_labels.strip())
    matcher = cluster_matcher(config)
    if matcher:
        query = f"{query[:-1].rstrip()}, {matcher}}}" if query.endswith("}") else f"{query}{{{matcher}}}"
    return f"timestamp(last_over_time({query}[{prometheus_duration(length)}]))"


def count_query(config: PrometheusConfig, namespace: str = "") -> str:
    """The query for the number of containers in an hour."""
    return f"count(last_over_time({config.history_memory_metric}{{{selector(config, namespace)}}}[1h]))"


@dataclass(frozen=True, slots=True)
class Part:
    """The time range of one query."""

    start: Seconds
    end: Seconds
    step: Seconds
    expected: int
    """The expected number of samples of each of the two queries."""

    @property
    def points(self) -> int:
        return int((self.end - self.start) // self.step) + 1


def parts(config: PrometheusConfig, until: Seconds, counts: Mapping[Seconds, int]) -> list[Part]:
    """Splits the whole period into parts that are small enough, oldest first. `counts` has the number of series at
    several instants."""
    step = config.history_resolution
    start = until - config.history_length
    found = []
    while start <= until:
        near = [number for at, number in counts.items() if abs(at - start) <= 86400.0]
        series = max(near or counts.values(), default=0)
        points = max(1, int(config.prometheus_max_samples // max(series, 1)))
        end = min(start + (points - 1) * step, start + 86400.0 - step if step < 86400.0 else start, until)
        end = start + max(0.0, (end - start) // step) * step
        part = Part(start, end, step, 0)
        found.append(replace(part, expected=series * part.points))
        start = end + step
    return found


def prometheus_duration(seconds: Seconds) -> str:
    whole = int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole % size == 0 and whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def sanitized(label: str) -> str:
    """A label name as kube-state-metrics writes it."""
    return _UNSAFE.sub("_", label)


def original_labels(found: Mapping[str, str], prefix: str, known: Mapping[str, str]) -> dict[str, str]:
    """Pod labels from a series' labels. `known` maps the written names back to the original ones."""
    cut = len(prefix)
    return {
        known.get(name[cut:], name[cut:]): value for name, value in found.items() if name.startswith(prefix) and value
    }


def spelled(names: Iterable[str]) -> dict[str, str]:
    """Maps the names that kube-state-metrics writes back to the original label names."""
    return {sanitized(name): name for name in names}


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
