"""The recommender's settings: upstream's flags with upstream's defaults, and a few additional ones.

Known difference: `kube-api-qps` and `kube-api-burst` limit requests only when they differ from their defaults; a server
protects itself with priority and fairness, and throttling here delays decisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podfit.vpa.flags import BadFlag, namespaces_apart, parse
from podfit.vpa.history.plugged import check
from podfit.vpa.history.queries import PrometheusConfig
from podfit.vpa.leading import check_election
from podfit.vpa.policies.prices import priced
from podfit.vpa.recommender.decide.config import SIMILAR_IN, Config


def _model() -> Config:
    return Config(survive_missing_target=True)


@dataclass(frozen=True)
class RecommenderConfig:
    recommender_name: str = "default"
    recommender_interval: float = 60.0
    checkpoints_gc_interval: float = 600.0
    checkpoints_timeout: float = 60.0
    address: str = ":8942"
    storage: str = ""
    memory_saver: bool = False
    update_worker_count: int = 10
    use_external_metrics: bool = False
    external_metrics_cpu_metric: str = ""
    external_metrics_memory_metric: str = ""
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
    leader_elect_resource_name: str = "vpa-recommender-lease"
    leader_elect_resource_namespace: str = "kube-system"
    history_file: str = "podfit-history.db"
    """The file of `--storage=local`."""
    secure_address: str = ""
    """HOST:PORT of the HTTPS server for recommendation.podfit.dev behind an API server; empty: none."""
    secure_service: str = "vpa-recommender"
    """The Service through which the API server reaches it."""
    secure_url: str = ""
    """The address at which podfit's API server reaches it without a Service."""
    shadow_policies: tuple[str, ...] = ()
    """Policies that are evaluated on every container beside the one that sizes it."""
    policy_costs: tuple[str, ...] = ()
    """The prices by which policies choose, NAME=VALUE; default: those of `Costs`."""
    low_confidence_below: float = 1.0
    """A recommendation is LowConfidence until it is based on this many confidence intervals of samples."""
    plan: bool = False
    """Print the queries to Prometheus, and exit."""
    model: Config = field(default_factory=_model)
    prometheus: PrometheusConfig = field(default_factory=PrometheusConfig)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the recommenders in this process: the configured one and, if that is the default, the built-in
        ones."""
        from podfit.vpa.recommender.plugins import BUNDLED

        return (self.recommender_name, *BUNDLED) if self.recommender_name == "default" else (self.recommender_name,)

    def handles(self, vpa: Any) -> bool:
        named = [entry.get("name") for entry in (vpa.get("spec") or {}).get("recommenders") or ()]
        if not named:
            return self.recommender_name == "default"
        return any(name in self.names for name in named)


def recommender_config(arguments: list[str], default: RecommenderConfig | None = None) -> RecommenderConfig:
    """Parses a command line. Raises BadFlag."""
    from dataclasses import replace

    config = parse(default or RecommenderConfig(), arguments)
    namespaces_apart(config.vpa_object_namespace, config.ignored_vpa_object_namespaces)
    check_election(config)
    check(config.storage)
    if config.model.start_from_similar not in SIMILAR_IN:
        raise BadFlag(f"--start-from-similar must be one of {', '.join(SIMILAR_IN)}")
    _check_shadows(config.shadow_policies)
    try:
        priced(config.policy_costs)
    except ValueError as error:
        raise BadFlag(f"--policy-costs: {error}") from None
    if config.use_external_metrics and not (
        config.external_metrics_cpu_metric or config.external_metrics_memory_metric
    ):
        raise BadFlag("--use-external-metrics needs --external-metrics-cpu-metric or --external-metrics-memory-metric")
    tokens = config.prometheus.prometheus_bearer_token, config.prometheus.prometheus_bearer_token_file
    if all(tokens) and config.prometheus.username:
        raise BadFlag(
            "--bearer-token, --bearer-token-file and --username are mutually exclusive and can't be set together"
        )
    if config.feature_gates.get("PerVPAConfig"):
        config = replace(config, model=replace(config.model, per_vpa_config=True))
    return config


def _check_shadows(names: tuple[str, ...]) -> None:
    from podfit.vpa.policies.table import POLICIES

    for name in names:
        if name not in POLICIES:
            raise BadFlag(f"--shadow-policies: unknown policy {name!r}: it is one of {', '.join(POLICIES)}")
