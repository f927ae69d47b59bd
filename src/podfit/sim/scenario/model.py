"""The values of a scenario. Amounts are in millicores and bytes, times in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

OFF, INITIAL, RECREATE, IN_PLACE_OR_RECREATE, IN_PLACE = "Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace"
MODES = (OFF, INITIAL, RECREATE, IN_PLACE_OR_RECREATE, IN_PLACE)
CONSTANT, DAILY, BURSTS, RAMP, LEAK, TRACE = "constant", "daily", "bursts", "ramp", "leak", "trace"
CURVES = (CONSTANT, DAILY, BURSTS, RAMP, LEAK, TRACE)
NODE_DOWN, METRICS_GAP, RECOMMENDER_DOWN = "node-down", "metrics-gap", "recommender-down"
FAULTS = (NODE_DOWN, METRICS_GAP, RECOMMENDER_DOWN)


@dataclass(frozen=True, slots=True)
class Size:
    """An amount of CPU and of memory. None means no limit, or no bound."""

    cpu: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class NodeGroup:
    name: str
    count: int
    cpu: int
    memory: int
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curve:
    """The usage of one resource by one pod, in cores or bytes. The fields that apply depend on the kind."""

    kind: str
    low: float = 0.0
    high: float = 0.0
    peak_s: float = 0.0
    """Of `daily`: the time of day at which usage is highest."""
    every_s: float = 0.0
    """Of `bursts`: the mean time between two of them."""
    over_s: float = 0.0
    """How long a burst or a ramp lasts."""
    rate: float = 0.0
    """Of `leak`: growth in a second, from the start of the container."""
    noise: float = 0.0
    """The standard deviation of the logarithm of a sample."""
    file: str = ""
    scale: float = 1.0
    """Of `trace`: each sample is multiplied by this."""
    series: int | None = None
    """Of `trace`: the series that all replicas follow. None: a random one for each replica."""


@dataclass(frozen=True, slots=True)
class Autoscaler:
    mode: str = OFF
    policy: str | None = None
    least: Size = Size()
    most: Size = Size()
    min_replicas: int = 2


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    replicas: int
    cpu: int
    memory: int
    limits: Size
    cpu_curve: Curve
    memory_curve: Curve
    autoscaler: Autoscaler = Autoscaler()
    priority: int = 0
    node_selector: Mapping[str, str] = field(default_factory=dict)
    startup_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Fault:
    kind: str
    at_s: float
    for_s: float
    nodes: str = ""
    """The group of nodes that fail; empty: any."""
    count: int = 1

    def active(self, now: float, step_s: float) -> bool:
        """Whether the fault is active during the step that begins at `now`."""
        return self.at_s < now + step_s and now < self.at_s + self.for_s


@dataclass(frozen=True, slots=True)
class Scenario:
    nodes: tuple[NodeGroup, ...]
    workloads: tuple[Workload, ...]
    faults: tuple[Fault, ...] = ()
    duration_s: float = 86400.0
    step_s: float = 300.0
    history_s: float = 0.0
    """The length of the usage history at the beginning of the simulation."""
    seed: int = 0
    policy: str = "default"
    """The policy of workloads that name none."""

    @property
    def steps(self) -> int:
        return max(1, round(self.duration_s / self.step_s))

    @property
    def pods(self) -> int:
        return sum(workload.replicas for workload in self.workloads)

    def with_policy(self, name: str) -> Scenario:
        """The same scenario with this policy for every autoscaler."""
        changed = tuple(
            replace(workload, autoscaler=replace(workload.autoscaler, policy=name)) for workload in self.workloads
        )
        return replace(self, workloads=changed, policy=name)

    def with_mode(self, mode: str) -> Scenario:
        """The same scenario with this update mode for every autoscaler."""
        changed = tuple(
            replace(workload, autoscaler=replace(workload.autoscaler, mode=mode)) for workload in self.workloads
        )
        return replace(self, workloads=changed)
