"""Sets the defaults of pods and pod templates after decoding, like Kubernetes' scheme.

A template gets fewer defaults: requests from limits, service links and pod-level requests are set on pods only.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.resources import is_pod_level_resource, pod_limits, pod_requests
from podfit.api.quantity import canonical
from podfit.api.text.remember import remembered
from podfit.apiserver.strategy.podspec import virtual_machines
from podfit.apiserver.strategy.podspec.storage.volume_defaults import default_volume
from podfit.apiserver.strategy.resourcelists import is_huge_pages, is_overcommit_allowed, normalise
from podfit.images.references import InvalidReference, parse

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LISTS = ("initContainers", "containers", "ephemeralContainers")


@remembered(4096)
def pull_policy(image: str) -> str:
    """The default pull policy: Always for the tag latest, explicit or implied."""
    try:
        return "Always" if parse(image).tag == "latest" else "IfNotPresent"
    except InvalidReference:
        return "IfNotPresent"


def default_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    machine = spec.get(virtual_machines.FIELD)
    if machine is not None:
        virtual_machines.add_mirror(spec)
    default_spec(spec)
    if machine is not None:
        _requests_from_limits(machine["resources"])
    host_network = bool(spec.get("hostNetwork"))
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            _requests_from_limits(container["resources"])
            if host_network:
                # Only pods get requests from limits; templates remain as written.
                _host_ports(container)
    if spec.get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if spec.get("resources"):
        _pod_level(pod, spec["resources"])


def default_template(template: Object) -> None:
    template.setdefault("metadata", {})
    default_spec(template.setdefault("spec", {}))


def default_spec(spec: Object) -> None:
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    sync_service_account(spec)
    if spec.get("volumes"):
        for volume in spec["volumes"]:
            default_volume(volume, pull_policy)
    machine = spec.get(virtual_machines.FIELD)
    if machine is not None:
        virtual_machines.default_machine(machine, pull_policy(machine.get("image") or ""))
        _resources(machine)
    for name in _LISTS:
        for container in spec.get(name) or ():
            _container(container)
    normalise(spec.get("overhead"))
    if spec.get("resources"):
        normalise(spec["resources"].get("limits"))
        normalise(spec["resources"].get("requests"))


def sync_service_account(spec: Object) -> None:
    """Synchronises serviceAccount, the old name, with serviceAccountName, which takes precedence. Both are shown."""
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _container(container: Object) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    _resources(container)
    for variable in container.get("env") or ():
        if variable.get("valueFrom"):
            _source(variable["valueFrom"])
    for name in _PROBES:
        if container.get(name) is not None:
            _probe(container[name])
    lifecycle = container.get("lifecycle")
    if lifecycle:
        for name in ("postStart", "preStop"):
            if lifecycle.get(name) is not None:
                _handler(lifecycle[name])


def _resources(holder: Object) -> None:
    resources = holder.get("resources")
    if resources is None:
        holder["resources"] = {}
    elif resources:
        normalise(resources.get("limits"))
        normalise(resources.get("requests"))


def _source(source: Object) -> None:
    field = source.get("fieldRef")
    if field is not None and not field.get("apiVersion"):
        field["apiVersion"] = "v1"
    resource = source.get("resourceFieldRef")
    if resource is not None:
        resource["divisor"] = canonical(resource.get("divisor") or "0")
    file = source.get("fileKeyRef")
    if file is not None and file.get("optional") is None:
        file["optional"] = False


def _probe(probe: Object) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(field):
            probe[field] = value
    _handler(probe)
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _handler(handler: Object) -> None:
    get = handler.get("httpGet")
    if get is not None:
        if not get.get("path"):
            get["path"] = "/"
        if not get.get("scheme"):
            get["scheme"] = "HTTP"


def _host_ports(container: Object) -> None:
    for port in container.get("ports") or ():
        if not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)


def _requests_from_limits(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests")
        if requests is None:
            resources["requests"] = dict(limits)
        else:
            for name, amount in limits.items():
                requests.setdefault(name, amount)


def _pod_level(pod: Object, resources: Object) -> None:
    """Sets missing pod-level requests for resources with a limit: the containers' requests, otherwise the limit."""
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    if not limits and not requests:
        return
    for name, amount in pod_limits(pod, pod_level=False, overhead=False).items():
        if is_huge_pages(name) and name not in limits and name not in requests:
            limits[name] = str(amount)
    if not limits:
        return
    for name, amount in pod_requests(pod, pod_level=False, overhead=False).items():
        if name not in requests and is_pod_level_resource(name) and is_overcommit_allowed(name):
            requests[name] = str(amount)
    for name, text in limits.items():
        if name not in requests and is_pod_level_resource(name):
            requests[name] = text
    resources["limits"] = limits
    if requests:
        resources["requests"] = requests
