"""The usage data of all containers that share a name and a set of pod labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podfit.api.quantity import Quantity
from podfit.vpa.model.objects.policy import RESOURCES, controlled_resources, scaling_off
from podfit.vpa.model.times import NEVER, Seconds, from_rfc3339, to_rfc3339
from podfit.vpa.recommender.decide.checkpoint import VERSION, CheckpointError, load_histogram, save_histogram
from podfit.vpa.recommender.decide.config import Config
from podfit.vpa.recommender.decide.histograms import buckets
from podfit.vpa.recommender.decide.histograms.histogram import DecayingHistogram

CPU_SAMPLE_WEIGHT = 0.1
MEMORY_PEAK_WEIGHT = 1.0


class AggregateState:
    """Two histograms, the time span of the CPU samples, and the settings that the container's policy overrides."""

    __slots__ = (
        "config",
        "controlled",
        "count",
        "cpu",
        "created",
        "first",
        "last",
        "memory",
        "memory_interval",
        "memory_intervals",
        "oom_min_bump",
        "oom_ratio",
        "scaling_off",
    )

    def __init__(self, config: Config, created: Seconds = NEVER) -> None:
        self.cpu = DecayingHistogram(buckets.CPU, config.cpu_histogram_decay_half_life)
        self.memory = DecayingHistogram(buckets.MEMORY, config.memory_histogram_decay_half_life)
        self.first: Seconds = NEVER
        self.last: Seconds = NEVER
        self.count = 0
        self._settings(config, created)

    def _settings(self, config: Config, created: Seconds) -> None:
        self.config = config
        self.created = created
        self.scaling_off = False
        self.controlled: tuple[str, ...] = RESOURCES
        self.oom_ratio = config.oom_bump_up_ratio
        self.oom_min_bump = config.oom_min_bump_up_bytes
        self.memory_interval = config.memory_aggregation_interval
        self.memory_intervals = config.memory_aggregation_interval_count

    def add_cpu(self, millicores: int, instant: Seconds) -> None:
        self.cpu.add(millicores / 1000.0, CPU_SAMPLE_WEIGHT, instant)
        self.last = max(self.last, instant)
        self.first = instant if self.first == NEVER else min(self.first, instant)
        self.count += 1

    def add_peak(self, amount: int, instant: Seconds) -> None:
        self.memory.add(float(amount), MEMORY_PEAK_WEIGHT, instant)

    def subtract_peak(self, amount: int, instant: Seconds) -> None:
        self.memory.subtract(float(amount), MEMORY_PEAK_WEIGHT, instant)

    def merge(self, other: AggregateState) -> None:
        self.cpu.merge(other.cpu)
        self.memory.merge(other.memory)
        if other.first != NEVER:
            self.first = other.first if self.first == NEVER else min(self.first, other.first)
        self.last = max(self.last, other.last)
        self.count += other.count

    @property
    def empty(self) -> bool:
        return self.count == 0

    def expired(self, now: Seconds) -> bool:
        """Whether all samples are older than the memory window. Without samples the age of the aggregate counts."""
        newest = self.created if self.empty else self.last
        return now - newest >= self.memory_interval * self.memory_intervals

    def apply_policy(self, policy: Mapping[str, Any]) -> None:
        """Applies the overrides of a policy. As in upstream, an override stays when its field is removed from the
        policy."""
        self.scaling_off = scaling_off(policy)
        self.controlled = controlled_resources(policy)
        if not self.config.per_vpa_config:
            return
        if policy.get("oomBumpUpRatio") is not None:
            self.oom_ratio = Quantity.parse(policy["oomBumpUpRatio"]).milli / 1000.0
        if policy.get("oomMinBumpUp") is not None:
            self.oom_min_bump = Quantity.parse(policy["oomMinBumpUp"]).milli / 1000.0
        self.memory_interval = policy.get("memoryAggregationIntervalSeconds") or self.memory_interval
        self.memory_intervals = policy.get("memoryAggregationIntervalCount") or self.memory_intervals

    def save(self, now: Seconds) -> dict[str, Any]:
        """The status of its checkpoint object."""
        return {
            "lastUpdateTime": to_rfc3339(now),
            "version": VERSION,
            "cpuHistogram": save_histogram(self.cpu),
            "memoryHistogram": save_histogram(self.memory),
            "firstSampleStart": to_rfc3339(self.first),
            "lastSampleStart": to_rfc3339(self.last),
            **({"totalSamplesCount": self.count} if self.count else {}),
        }


def load_aggregate(status: Mapping[str, Any], config: Config) -> AggregateState:
    """Reads the status of a checkpoint object. Raises CheckpointError for an unsupported version or invalid content."""
    version = status.get("version") or ""
    if version != VERSION:
        raise CheckpointError(f"unsupported checkpoint version {version}")
    state = AggregateState(config)
    try:
        state.first = from_rfc3339(status.get("firstSampleStart"))
        state.last = from_rfc3339(status.get("lastSampleStart"))
        state.count = int(status.get("totalSamplesCount") or 0)
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(f"checkpoint cannot be read: {error}") from error
    load_histogram(state.memory, status.get("memoryHistogram") or {})
    load_histogram(state.cpu, status.get("cpuHistogram") or {})
    return state
