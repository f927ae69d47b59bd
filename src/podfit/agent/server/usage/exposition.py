"""Usage in Prometheus' text format, under the names that cAdvisor and the kubelet gave it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podfit.agent.pods.record import PodRecord
from podfit.agent.probes.probes import FAILED, PROBE_TYPES, SUCCESSFUL
from podfit.agent.runtimes.cgroups import QOS_FOLDERS
from podfit.agent.server.usage.usage import ContainerSample, NodeSample, PodSample
from podfit.api.resize.states import all_containers

TEXT = "text/plain; version=0.0.4; charset=utf-8"
Row = tuple[Mapping[str, str], float, float]
"""Labels, value, time in seconds."""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


class Page:
    def __init__(self, stamped: bool = True) -> None:
        self._lines: list[str] = []
        self._stamped = stamped

    def add(self, name: str, kind: str, text: str, rows: Iterable[Row]) -> None:
        lines = [self._line(name, *row) for row in rows]
        if lines:
            self._lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *lines]

    def _line(self, name: str, labels: Mapping[str, str], value: float, at: float) -> str:
        inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(labels.items()))
        head = f"{name}{{{inner}}}" if inner else name
        stamp = f" {int(at * 1000)}" if self._stamped and at else ""
        return f"{head} {_number(value)}{stamp}"

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


_FAULTS = ("pgfault", "pgmajfault")
LABEL_VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    "container_cpu_usage_seconds_total": {"cpu": ("total",)},
    "container_memory_failures_total": {"failure_type": _FAULTS, "scope": ("container",)},
    "prober_probe_total": {"probe_type": tuple(PROBE_TYPES.values()), "result": (SUCCESSFUL, FAILED)},
}
"""The values of labels that have a fixed set of them."""


# --- /metrics/resource ---------------------------------------------------------------------------------------------


def _names(pod: PodSample) -> dict[str, str]:
    return {"namespace": pod.record.namespace, "pod": pod.record.name}


def resource_page(node: NodeSample) -> str:
    page = Page()
    containers = [
        ({**_names(pod), "container": container.state.name}, container, container.usage.at)
        for pod in node.pods
        for container in pod.containers
    ]
    pods = [(_names(pod), pod.usage) for pod in node.pods]
    page.add(
        "container_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the container in core-seconds",
        [(labels, sample.usage.cpu_nanos / 1e9, at) for labels, sample, at in containers],
    )
    page.add(
        "container_memory_working_set_bytes",
        "gauge",
        "Current working set of the container in bytes",
        [(labels, sample.usage.working_set_bytes, at) for labels, sample, at in containers],
    )
    page.add(
        "container_start_time_seconds",
        "gauge",
        "Start time of the container since unix epoch in seconds",
        [(labels, sample.state.started_at, 0) for labels, sample, _ in containers],
    )
    ended: list[Row] = [
        ({**_names(pod), "container": name}, count, 0) for pod in node.pods for name, count in pod.record.ooms.items()
    ]
    page.add("podfit_container_oom_ends_total", "counter", "Number of out-of-memory kills of the container.", ended)
    for name, text, attribute in _THROTTLING:
        rows: list[Row] = [
            (labels, getattr(sample.usage, attribute), at) for labels, sample, at in containers if sample.usage.periods
        ]
        page.add(f"container_{name}", "counter", text, rows)
    page.add(
        "node_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the node in core-seconds",
        [({}, node.usage.cpu_nanos / 1e9, node.usage.at)],
    )
    page.add(
        "node_memory_working_set_bytes",
        "gauge",
        "Current working set of the node in bytes",
        [({}, node.usage.working_set_bytes, node.usage.at)],
    )
    page.add(
        "pod_cpu_usage_seconds_total",
        "counter",
        "Cumulative cpu time consumed by the pod in core-seconds",
        [(labels, usage.cpu_nanos / 1e9, usage.at) for labels, usage in pods],
    )
    page.add(
        "pod_memory_working_set_bytes",
        "gauge",
        "Current working set of the pod in bytes",
        [(labels, usage.working_set_bytes, usage.at) for labels, usage in pods],
    )
    failed = int(node.errors > 0)
    for name in ("scrape_error", "resource_scrape_error"):
        page.add(
            name, "gauge", "1 if there was an error while getting container metrics, 0 otherwise", [({}, failed, 0)]
        )
    return page.text()


# --- /metrics/cadvisor ---------------------------------------------------------------------------------------------


def pod_id(pod: PodSample, root: str) -> str:
    return f"{root}{QOS_FOLDERS.get(pod.record.qos, '')}/pod{pod.record.uid}"


def _groups(node: NodeSample, root: str) -> list[tuple[dict[str, str], PodSample | ContainerSample]]:
    """Every cgroup with a pod's or a container's usage, and its labels."""
    found: list[tuple[dict[str, str], PodSample | ContainerSample]] = []
    for pod in node.pods:
        names = _names(pod)
        whole = {**names, "container": "", "id": pod_id(pod, root), "image": "", "name": ""}
        found.append((whole, pod))
        for container in pod.containers:
            labels = {
                **names,
                "container": container.state.name,
                "id": f"{whole['id']}/{container.state.id}",
                "image": container.state.image,
                "name": container.state.id,
            }
            found.append((labels, container))
    return found


_THROTTLING = (
    ("cpu_cfs_periods_total", "Number of elapsed enforcement period intervals.", "periods"),
    ("cpu_cfs_throttled_periods_total", "Number of throttled period intervals.", "throttled_periods"),
)
_CADVISOR = (
    ("cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", "cpu_nanos", 1e9),
    *((name, "counter", text, attribute, 1) for name, text, attribute in _THROTTLING),
    (
        "cpu_cfs_throttled_seconds_total",
        "counter",
        "Total time duration the container has been throttled.",
        "throttled_nanos",
        1e9,
    ),
    ("memory_usage_bytes", "gauge", "Current memory usage in bytes, all memory.", "memory_bytes", 1),
    ("memory_working_set_bytes", "gauge", "Current working set in bytes.", "working_set_bytes", 1),
    ("memory_rss", "gauge", "Size of RSS in bytes.", "rss_bytes", 1),
    ("memory_cache", "gauge", "Number of bytes of page cache memory.", "cache_bytes", 1),
    ("oom_events_total", "counter", "Count of out of memory events observed for the container.", "oom_kills", 1),
    ("processes", "gauge", "Number of processes running inside the container.", "processes", 1),
)


def cadvisor_page(node: NodeSample, root: str, cores: float, memory_bytes: int) -> str:
    page = Page()
    groups = _groups(node, root)
    top = {"container": "", "id": "/", "image": "", "name": "", "namespace": "", "pod": ""}
    for name, kind, text, attribute, scale in _CADVISOR:
        rows: list[Row] = []
        extra = {"cpu": "total"} if name == "cpu_usage_seconds_total" else {}
        if name in ("cpu_usage_seconds_total", "memory_usage_bytes", "memory_working_set_bytes", "memory_rss"):
            rows.append(({**top, **extra}, getattr(node.usage, attribute) / scale, node.usage.at))
        rows += [
            ({**labels, **extra}, getattr(sample.usage, attribute) / scale, sample.usage.at)
            for labels, sample in groups
        ]
        page.add(f"container_{name}", kind, text, rows)
    _faults(page, groups)
    _specs(page, groups)
    started = [
        (labels, sample.state.started_at, sample.usage.at)
        for labels, sample in groups
        if isinstance(sample, ContainerSample)
    ]
    page.add("container_start_time_seconds", "gauge", "Start time of the container since unix epoch.", started)
    _ooms(page, node)
    page.add("machine_cpu_cores", "gauge", "Number of logical CPU cores.", [({}, cores, 0)])
    page.add("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.", [({}, memory_bytes, 0)])
    return page.text()


def _faults(page: Page, groups: list[tuple[dict[str, str], PodSample | ContainerSample]]) -> None:
    rows: list[Row] = []
    for labels, sample in groups:
        for kind, value in zip(_FAULTS, (sample.usage.page_faults, sample.usage.major_page_faults), strict=True):
            rows.append(({**labels, "failure_type": kind, "scope": "container"}, value, sample.usage.at))
    page.add("container_memory_failures_total", "counter", "Cumulative count of memory allocation failures.", rows)


def _ooms(page: Page, node: NodeSample) -> None:
    """OOM kills by container. cAdvisor's counter disappears with a killed container; this one outlives it, so that the
    kill is visible."""
    rows: list[Row] = []
    for pod in node.pods:
        now = {sample.state.name: sample.usage.oom_kills for sample in pod.containers}
        for container in all_containers(pod.record.pod["spec"]):
            name = container["name"]
            kills = pod.record.ooms.get(name, 0) + now.get(name, 0)
            rows.append(({**_names(pod), "container": name}, kills, 0))
    text = "Out-of-memory kills in a pod's container, over all its restarts."
    page.add("podfit_container_oom_kills_total", "counter", text, rows)


def _specs(page: Page, groups: list[tuple[dict[str, str], PodSample | ContainerSample]]) -> None:
    limited = [(labels, container.limits) for labels, container in groups]
    with_quota = [(labels, limits) for labels, limits in limited if limits.cpu_quota_us is not None]
    page.add(
        "container_spec_cpu_period",
        "gauge",
        "CPU period of the container.",
        [(labels, limits.cpu_period_us, 0) for labels, limits in limited],
    )
    page.add(
        "container_spec_cpu_quota",
        "gauge",
        "CPU quota of the container.",
        [(labels, limits.cpu_quota_us or 0, 0) for labels, limits in with_quota],
    )
    page.add(
        "container_spec_cpu_shares",
        "gauge",
        "CPU share of the container.",
        [(labels, limits.cpu_shares or 0, 0) for labels, limits in limited],
    )
    page.add(
        "container_spec_memory_limit_bytes",
        "gauge",
        "Memory limit for the container.",
        [(labels, limits.memory_bytes or 0, 0) for labels, limits in limited],
    )


# --- /metrics/probes -----------------------------------------------------------------------------------------------


def probes_page(records: Iterable[PodRecord]) -> str:
    rows: list[Row] = []
    for record in records:
        for (container, kind, result), times in (record.probes.counts if record.probes is not None else {}).items():
            labels = {
                "container": container,
                "namespace": record.namespace,
                "pod": record.name,
                "pod_uid": record.uid,
                "probe_type": PROBE_TYPES[kind],
                "result": result,
            }
            rows.append((labels, times, 0))
    page = Page()
    text = "Cumulative number of a liveness, readiness or startup probe for a container by result."
    page.add("prober_probe_total", "counter", text, rows)
    return page.text()
