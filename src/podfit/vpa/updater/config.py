"""The updater's settings: upstream's flags with upstream's defaults, and podfit's guard rails.

Known differences: as in the recommender, `kube-api-qps` and `kube-api-burst` limit requests only when they are set. If
the admission webhook is missing, only evictions stop, because a resize in place does not need it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from podfit.vpa.flags import BadFlag, namespaces_apart, own_namespace, parse
from podfit.vpa.leading import check_election
from podfit.vpa.model.changing.windows import BadWindow, windows
from podfit.vpa.updater.decide.config import UpdateConfig


@dataclass(frozen=True)
class UpdaterConfig:
    updater_interval: float = 60.0
    min_replicas: int = 2
    eviction_tolerance: float = 0.5
    eviction_rate_limit: float = -1.0
    eviction_rate_burst: int = 1
    address: str = ":8943"
    use_admission_controller_status: bool = True
    admission_controller_status_lease_name: str = "vpa-admission-controller"
    admission_controller_status_lease_namespace: str = field(default_factory=own_namespace)
    admission_controller_status_timeout: float = 60.0
    in_place_skip_disruption_budget: bool = False
    pod_update_threshold: float = 0.1
    in_recommendation_bounds_eviction_lifetime_threshold: float = 12 * 3600.0
    evict_after_oom_threshold: float = 600.0
    vpa_object_namespace: str = ""
    ignored_vpa_object_namespaces: tuple[str, ...] = ()
    kubeconfig: str = ""
    profiling: bool = False
    v: int = 4
    kube_api_qps: float = 50.0
    kube_api_burst: float = 100.0
    feature_gates: dict[str, bool] = field(default_factory=dict)
    leader_elect: bool = False
    leader_elect_lease_duration: float = 15.0
    leader_elect_renew_deadline: float = 10.0
    leader_elect_retry_period: float = 2.0
    leader_elect_resource_lock: str = "leases"
    leader_elect_resource_name: str = "vpa-updater"
    leader_elect_resource_namespace: str = "kube-system"
    change_without_recommendation: bool = False
    """Scale containers to a LimitRange without a recommendation, as upstream does."""
    workers: int = 16
    """Autoscalers processed concurrently."""
    changes_per_minute: float = 0.0
    """Resizes and evictions in the whole cluster; 0 is unlimited."""
    scale_down_delay: float = 300.0
    """A request falls only to the highest target of this period: up fast, down slowly."""
    scale_down_step: float = 0.5
    """The largest fraction of a request that one resize may remove; 1 is unlimited."""
    maintenance_windows: str = ""
    """When changes are allowed, as `Mon-Fri 22:00-04:00; Sun 00:00-24:00` (UTC); empty is always."""
    panic_namespace: str = "kube-system"
    panic_name: str = "podfit-panic"
    undo_within: float = 600.0
    """An out-of-memory kill or throttling this soon after a resize counts as its consequence."""
    undo_hold: float = 3600.0
    """How long a resource is not lowered again after an undo."""
    undo_settle: float = 30.0
    """Usage this soon after a resize still includes the time before it."""
    undo_throttled_above: float = 0.95
    """CPU usage, as a fraction of the limit, that counts as throttling."""
    recommender_url: str = ""
    """Queried in every pass, if set; otherwise the recommendation in the autoscaler's status is used. `aggregated`
    queries through the API server, with this component's credentials."""
    recommender_timeout: float = 0.5
    update_starved_at_once: bool = True
    """Resize pods with a starved container as soon as the recommendation arrives, not in the next pass."""
    rolling_settle: float = 60.0
    """How long a pod must be ready with a changed policy before the next one gets it (annotation
    podfit.dev/rolling)."""
    deferred_timeout: float = 300.0
    in_progress_timeout: float = 3600.0

    @property
    def model(self) -> UpdateConfig:
        return UpdateConfig(
            self.min_replicas,
            self.eviction_tolerance,
            self.in_place_skip_disruption_budget,
            self.pod_update_threshold,
            self.in_recommendation_bounds_eviction_lifetime_threshold,
            self.evict_after_oom_threshold,
            self.deferred_timeout,
            self.in_progress_timeout,
            timeouts_per_attempt=True,
            gates=self.feature_gates,
        )


def updater_config(arguments: list[str], default: UpdaterConfig | None = None) -> UpdaterConfig:
    """Parses a command line. Raises BadFlag."""
    config = parse(default or UpdaterConfig(), arguments)
    namespaces_apart(config.vpa_object_namespace, config.ignored_vpa_object_namespaces)
    check_election(config)
    try:
        windows(config.maintenance_windows)
    except BadWindow as error:
        raise BadFlag(f"--maintenance-windows: {error}") from error
    if not 0 < config.scale_down_step <= 1:
        raise BadFlag("--scale-down-step: must be more than 0 and at most 1")
    return replace(config, workers=max(1, config.workers))
