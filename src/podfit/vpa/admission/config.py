"""The admission webhook's settings: upstream's flags with upstream's defaults, and a few additional ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from podfit.api.quantity import Quantity
from podfit.vpa.flags import BadFlag, namespaces_apart, own_namespace, parse

TLS_VERSIONS = ("tls1_2", "tls1_3")


@dataclass(frozen=True)
class AdmissionConfig:
    port: int = 8000
    address: str = ":8944"
    client_ca_file: str = "/etc/tls-certs/caCert.pem"
    tls_cert_file: str = "/etc/tls-certs/serverCert.pem"
    tls_private_key: str = "/etc/tls-certs/serverKey.pem"
    """Without these files the webhook issues its own certificates and stores them in a Secret."""
    reload_cert: bool = False
    tls_ciphers: str = ""
    min_tls_version: str = "tls1_2"
    webhook_service: str = "vpa-webhook"
    webhook_address: str = ""
    webhook_port: str = ""
    register_by_url: bool = False
    webhook_timeout_seconds: int = 30
    webhook_failure_policy_fail: bool = False
    register_webhook: bool = True
    validate_vpa_objects: bool = True
    """Whether the webhook also validates autoscaler objects; otherwise only their schema does."""
    webhook_labels: str = ""
    max_allowed_cpu_boost: Quantity | None = None
    vpa_object_namespace: str = ""
    ignored_vpa_object_namespaces: tuple[str, ...] = ()
    kubeconfig: str = ""
    profiling: bool = False
    v: int = 4
    kube_api_qps: float = 50.0
    kube_api_burst: float = 100.0
    feature_gates: dict[str, bool] = field(default_factory=dict)
    host: str = ""
    """The listen address; empty means all addresses."""
    namespace: str = field(default_factory=own_namespace)
    recommender_url: str = ""
    """If set, queried for every new pod; otherwise the recommendation in the autoscaler's status is used. `aggregated`
    queries through the API server, with this component's credentials."""
    recommender_timeout: float = 0.5
    certificate_secret: str = "vpa-tls-certs"
    certificate_lifetime: float = 30 * 86400.0
    change_without_recommendation: bool = False
    """Annotate pods, and scale containers to a LimitRange, without a recommendation, as upstream does."""
    fit_to_room: bool = True
    """Give new pods no more than fits on the nodes and into the quotas. Otherwise they get their target and may have to
    wait for a node, which a cluster autoscaler may add."""
    panic_namespace: str = "kube-system"
    panic_name: str = "podfit-panic"
    """The ConfigMap that stops all changes while it exists."""
    register_delay: float = 0.0
    """The delay before registration. Upstream waits 10 s so that it is serving by then; podfit starts serving first."""

    @property
    def labels(self) -> dict[str, str]:
        found = {}
        for part in filter(None, self.webhook_labels.split(",")):
            key, colon, value = part.partition(":")
            if not colon:
                raise BadFlag(f"--webhook-labels: {part!r} is not key:value")
            found[key.strip()] = value.strip()
        return found


def admission_config(arguments: list[str], default: AdmissionConfig | None = None) -> AdmissionConfig:
    """Parses a command line. Raises BadFlag."""
    config = parse(default or AdmissionConfig(), arguments)
    namespaces_apart(config.vpa_object_namespace, config.ignored_vpa_object_namespaces)
    if config.min_tls_version not in TLS_VERSIONS:
        raise BadFlag(f"--min-tls-version: must be one of {', '.join(TLS_VERSIONS)}")
    if config.register_by_url and not config.webhook_address:
        raise BadFlag("--register-by-url needs --webhook-address")
    assert config.labels is not None
    return config
