"""The recommender's parameters, named as its flags."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from podfit.api.quantity import Quantity
from podfit.vpa.model.times import Seconds

DAY = 86400
NAMESPACE, CLUSTER, OFF = "namespace", "cluster", "off"
SIMILAR_IN = (NAMESPACE, CLUSTER, OFF)


@dataclass(frozen=True, slots=True)
class Config:
    recommendation_margin_fraction: float = 0.15
    pod_recommendation_min_cpu_millicores: float = 25.0
    pod_recommendation_min_memory_mb: float = 250.0
    target_cpu_percentile: float = 0.9
    recommendation_lower_bound_cpu_percentile: float = 0.5
    recommendation_upper_bound_cpu_percentile: float = 0.95
    target_memory_percentile: float = 0.9
    recommendation_lower_bound_memory_percentile: float = 0.5
    recommendation_upper_bound_memory_percentile: float = 0.95
    confidence_interval_cpu: Seconds = DAY
    confidence_interval_memory: Seconds = DAY
    humanize_memory: bool = False
    round_cpu_millicores: int = 1
    round_memory_bytes: int = 1
    cpu_integer_post_processor_enabled: bool = False
    container_recommendation_max_allowed_cpu: Quantity | None = None
    container_recommendation_max_allowed_memory: Quantity | None = None
    memory_aggregation_interval: Seconds = DAY
    memory_aggregation_interval_count: int = 8
    memory_histogram_decay_half_life: Seconds = DAY
    cpu_histogram_decay_half_life: Seconds = DAY
    oom_bump_up_ratio: float = 1.2
    oom_min_bump_up_bytes: float = 100 * 1024 * 1024
    per_vpa_config: bool = False
    survive_missing_target: bool = False
    """Keep an autoscaler's history while its target cannot be found. Upstream forgets it."""
    recommend_without_samples: bool = False
    """Recommend the smallest size for a container or resource that has no samples, as upstream does."""
    expire_samples_without_metrics: bool = False
    """Forget samples after the memory window even when no newer ones arrived, as upstream does."""
    miss_oom_kills: bool = False
    """Count only the out-of-memory kills that the Kubernetes autoscaler counts: not those of a container that waits
    before it starts again, nor those before the first sample of a container."""
    starved_above: float = 0.95
    """CPU usage, as a fraction of the limit, from which a container counts as starved; 0 disables this."""
    starvation_growth: float = 4.5
    """The factor by which the recommendation for a starved container exceeds its usage."""
    throttled_above: float = 0.25
    """The fraction of periods throttled from which a container counts as starved although it uses less than its limit
    on average; 0 disables this."""
    throttled_growth: float = 1.5
    """The factor by which the recommendation for a container with throttled bursts exceeds its request."""
    respect_heap_settings: bool = True
    """Never recommend less memory than the heap settings of a language runtime require."""
    small_group_margin: float = 0.0
    """A further margin, divided by the number of pods: the fewer there are, the more each takes over when one is
    gone."""

    start_from_similar: str = NAMESPACE
    """Where a container with few samples of its own finds similar containers: in its `namespace`, in the whole
    `cluster`, or `off`: nowhere, as in upstream."""

    @property
    def max_allowed(self) -> dict[str, Quantity]:
        """The cluster-wide maxima that are set."""
        limits = {
            "cpu": self.container_recommendation_max_allowed_cpu,
            "memory": self.container_recommendation_max_allowed_memory,
        }
        return {name: limit for name, limit in limits.items() if limit}


def from_flags(flags: dict[str, Any]) -> Config:
    """Creates a configuration from flags by their names on the command line, with durations in seconds. Unknown flags
    raise ValueError."""
    known = {field.name for field in fields(Config)}
    values: dict[str, Any] = {}
    for flag, value in flags.items():
        if flag == "feature-gates":
            values["per_vpa_config"] = bool(value.get("PerVPAConfig"))
            continue
        name = flag.replace("-", "_")
        if name not in known:
            raise ValueError(f"unknown flag: --{flag}")
        if name.startswith("container_recommendation_max"):
            value = Quantity.parse(value) if value else None
        values[name] = value
    return Config(**values)


def to_flags(config: Config) -> dict[str, Any]:
    """Settings that differ from the defaults, in the form of `from_flags`."""
    default = Config()
    found: dict[str, Any] = {}
    for field in fields(Config):
        value = getattr(config, field.name)
        if value == getattr(default, field.name) or field.name in ("survive_missing_target", "per_vpa_config"):
            continue
        found[field.name.replace("_", "-")] = value.as_written() if isinstance(value, Quantity) else value
    if config.per_vpa_config:
        found["feature-gates"] = {"PerVPAConfig": True}
    return found
