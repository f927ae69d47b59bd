"""Validation of a pod's spec, in a pod or in a template, in Kubernetes' order."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.pods.resources import amounts, is_sidecar, pod_limits, pod_requests
from podfit.api.quantity import Quantity
from podfit.api.status import duplicate, field_forbidden, invalid, required, too_long
from podfit.api.text import names
from podfit.apiserver.strategy import resourcelists
from podfit.apiserver.strategy.addresses import strict_ip
from podfit.apiserver.strategy.checks import Errors, chosen, labels, names_valid
from podfit.apiserver.strategy.meta import validate_annotations
from podfit.apiserver.strategy.podspec import placement
from podfit.apiserver.strategy.podspec.annotations import DELETION_COST, has_valid_cost, pod_annotations, profiles_agree
from podfit.apiserver.strategy.podspec.containers import (
    PodRules,
    containers,
    ephemeral_containers,
    init_containers,
    no_restart_on_resize,
    only_in_pods,
    resizable,
)
from podfit.apiserver.strategy.podspec.security import host_process, operating_system, pod_security
from podfit.apiserver.strategy.podspec.storage.volumes import volumes
from podfit.apiserver.strategy.podspec.virtual_machines import agrees_with_mirror, virtual_machine

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_NO_CLAIMS: frozenset[str] = frozenset()
_LONGEST_HOSTNAME = 64


def validate_pod(pod: Object, errors: Errors, old: Object | None = None) -> None:
    """Validates a pod except for its general metadata; `old` is the stored pod on updates."""
    spec = pod.get("spec") or {}
    metadata = pod.get("metadata") or {}
    annotations_of(pod, old, errors)
    validate_spec(spec, "spec", errors, pod_name=metadata.get("name", ""), is_pod=True)
    if not spec.get("serviceAccountName"):
        _tokens_without_account(spec, errors)
    for key in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(key) or ()):
            only_in_pods(container, f"spec.{key}[{at}]", errors)


def validate_resized(spec: Object, stored: Object, errors: Errors) -> None:
    """Validates a pod's spec that differs from the stored one at most in resources and resize policies. The rest was
    valid when it was written, and is not checked again."""
    claims, policy = _claim_names(spec), spec.get("restartPolicy", "")
    for at, (container, kept) in enumerate(zip(spec["containers"], stored["containers"], strict=True)):
        if container is not kept:
            resizable(container, claims, policy, f"spec.containers[{at}]", errors)
    for at, container in enumerate(spec.get("initContainers") or ()):
        if container is not stored["initContainers"][at]:
            resizable(container, claims, policy, f"spec.initContainers[{at}]", errors)
            if not is_sidecar(container):
                no_restart_on_resize(container, f"spec.initContainers[{at}]", errors)
    if spec.get("virtualMachine") is not None:
        agrees_with_mirror(spec, "spec", errors)
    if spec.get("resources") is not None:
        _pod_level(spec, claims, "spec.resources", errors)


def annotations_of(pod: Object, old: Object | None, errors: Errors) -> None:
    """Validates annotations. A stored invalid deletion cost may remain."""
    values = (pod.get("metadata") or {}).get("annotations")
    stored = ((old or {}).get("metadata") or {}).get("annotations")
    if values and not has_valid_cost(stored):
        values = {key: value for key, value in values.items() if key != DELETION_COST}
    pod_annotations(values, pod.get("spec") or {}, "metadata.annotations", errors)


def validate_template(template: Object, path: str, errors: Errors) -> None:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    template_metadata(template, path, errors)
    validate_spec(spec, f"{path}.spec", errors)
    profiles_agree(metadata, spec, f"{path}.spec", errors)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(field_forbidden(f"{path}.spec.ephemeralContainers", detail))


def template_metadata(template: Object, path: str, errors: Errors) -> None:
    metadata = template.get("metadata") or {}
    labels(metadata.get("labels"), f"{path}.labels", errors)
    if metadata.get("annotations"):
        validate_annotations(metadata["annotations"], f"{path}.annotations", errors)
        pod_annotations(metadata["annotations"], template.get("spec") or {}, f"{path}.annotations", errors)


def _tokens_without_account(spec: Object, errors: Errors) -> None:
    for at, volume in enumerate(spec.get("volumes") or ()):
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                where = f"spec.volumes[{at}].projected.sources[{number}].serviceAccountToken"
                detail = "must not be specified when serviceAccountName is not set"
                errors.append(field_forbidden(where, detail))


def validate_spec(spec: Object, path: str, errors: Errors, *, pod_name: str = "", is_pod: bool = False) -> None:
    context = _context(spec, path, pod_name, is_pod, errors)
    regular, initial = spec.get("containers") or [], spec.get("initContainers") or []
    if spec.get("virtualMachine") is None:
        containers(regular, context, f"{path}.containers", errors)
    else:
        virtual_machine(spec, context, path, errors, is_pod=is_pod)
    if initial:
        init_containers(initial, regular, context, f"{path}.initContainers", errors)
    if spec.get("ephemeralContainers"):
        where = f"{path}.ephemeralContainers"
        ephemeral_containers(spec["ephemeralContainers"], spec, context, where, errors)
    if spec.get("resources") is not None:
        _pod_level(spec, context.claims, f"{path}.resources", errors)
    if spec.get("hostNetwork"):
        _host_network(regular, f"{path}.containers", is_pod, errors)
    _policies(spec, path, errors)
    if spec.get("securityContext") or spec.get("shareProcessNamespace"):
        pod_security(spec.get("securityContext") or {}, spec, f"{path}.securityContext", errors)
    _placement(spec, path, errors)
    host_process(spec, path, errors)
    if spec.get("hostUsers") is False:
        _own_users(spec, path, errors)
    _names(spec, path, errors)
    if spec.get("overhead"):
        wrapped = {"limits": spec["overhead"]}
        resourcelists.requirements(wrapped, f"{path}.overhead", _NO_CLAIMS, errors)
    if spec.get("os") is not None:
        operating_system(spec, path, errors)


def _context(spec: Object, path: str, pod_name: str, is_pod: bool, errors: Errors) -> PodRules:
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    listed = spec.get("volumes")
    valid = volumes(listed, pod_name, f"{path}.volumes", errors, is_pod=is_pod) if listed else {}
    if spec.get("resourceClaims"):
        _resource_claims(spec["resourceClaims"], f"{path}.resourceClaims", errors)
    return PodRules(
        valid,
        _claim_names(spec),
        grace,
        spec.get("restartPolicy", ""),
        spec.get("hostUsers") is not False,
        (spec.get("os") or {}).get("name", ""),
        spec.get("runtimeClassName") or "",
    )


def _claim_names(spec: Object) -> frozenset[str]:
    claims = spec.get("resourceClaims")
    return frozenset(each["name"] for each in claims if each.get("name")) if claims else _NO_CLAIMS


def _resource_claims(claims: list[Object], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, claim in enumerate(claims):
        here, name = f"{path}[{at}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{here}.name"))
        elif name in seen:
            errors.append(duplicate(f"{here}.name", name))
        else:
            names_valid(name, f"{here}.name", names.dns_label(name), errors)
        seen.add(name)
        sources = [claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")]
        shown = {"Name": name, "ResourceClaimName": sources[0], "ResourceClaimTemplateName": sources[1]}
        if None not in sources:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(here, shown, detail))
        elif sources == [None, None]:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(here, shown, detail))
        for field in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(field) is not None:
                names_valid(claim[field], f"{here}.{field}", names.dns_subdomain(claim[field]), errors)


def _pod_level(spec: Object, claims: frozenset[str], path: str, errors: Errors) -> None:
    """Validates pod-level resources: they cover the sum of the containers' requests, and no container exceeds them."""
    resources = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        errors.append(field_forbidden(path, "may not be set for a windows pod"))
        return
    if resources.get("claims"):
        errors.append(field_forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level"))
    resourcelists.requirements(resources, path, claims, errors, pod_level=True)
    requests, limits = amounts(resources.get("requests")), resources.get("limits") or {}
    for name, amount in pod_requests({"spec": spec}, pod_level=False, overhead=False).items():
        if name in requests and amount > requests[name]:
            detail = f"must be greater than or equal to aggregate container requests of {amount}"
            errors.append(invalid(f"{path}.requests[{name}]", str(requests[name]), detail))
    for name, amount in pod_limits({"spec": spec}, pod_level=False, overhead=False).items():
        if resourcelists.is_huge_pages(name) and name in limits and amount > Quantity.parse(limits[name]):
            detail = f"must be greater than or equal to aggregate container limits of {amount}"
            errors.append(invalid(f"{path}.limits[{name}]", limits[name], detail))
    for at, container in enumerate(spec.get("containers") or ()):
        for name, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and Quantity.parse(text) > Quantity.parse(limits[name]):
                where = f"{path}.containers[{at}][{name}].limits"
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(where, text, detail))


def _host_network(listed: list[Object], path: str, is_pod: bool, errors: Errors) -> None:
    for at, container in enumerate(listed):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort", 0)
            if (is_pod or host) and host != port.get("containerPort", 0):
                where = f"{path}[{at}].ports[{number}].hostPort"
                errors.append(invalid(where, host, "must match `containerPort` when `hostNetwork` is true"))


def _policies(spec: Object, path: str, errors: Errors) -> None:
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        chosen(spec.get("restartPolicy"), f"{path}.restartPolicy", _RESTART_POLICIES, errors)
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        chosen(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES, errors)
    if spec.get("nodeSelector"):
        labels(spec["nodeSelector"], f"{path}.nodeSelector", errors)


def _placement(spec: Object, path: str, errors: Errors) -> None:
    if spec.get("affinity"):
        placement.affinity(spec["affinity"], f"{path}.affinity", errors)
    if spec.get("dnsConfig") is not None or spec.get("dnsPolicy") == "None":
        _dns(spec.get("dnsConfig"), spec.get("dnsPolicy", ""), f"{path}.dnsConfig", errors)
    for at, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        names_valid(kind, f"{path}.readinessGates[{at}].conditionType", names.qualified_name(kind), errors)
    if spec.get("schedulingGates"):
        _gates(spec["schedulingGates"], f"{path}.schedulingGates", errors)
    if spec.get("topologySpreadConstraints"):
        placement.spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints", errors)


def _gates(gates: list[Object], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, gate in enumerate(gates):
        name = gate.get("name", "")
        names_valid(name, f"{path}[{at}]", names.qualified_name(name), errors)
        if name in seen:
            errors.append(duplicate(f"{path}[{at}]", name))
        seen.add(name)


def _dns(config: Object | None, policy: str, path: str, errors: Errors) -> None:
    if policy == "None":
        if config is None:
            errors.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.append(required(f"{path}.nameservers", detail))
            return
    servers, searches = (config or {}).get("nameservers") or [], (config or {}).get("searches") or []
    if len(servers) > 3:
        errors.append(invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for at, server in enumerate(servers):
        strict_ip(server, f"{path}.nameservers[{at}]", errors)
    if len(searches) > 32:
        errors.append(invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        detail = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(invalid(f"{path}.searches", searches, detail))
    for at, search in enumerate(searches):
        if search != ".":
            domain = search.removesuffix(".")
            names_valid(domain, f"{path}.searches[{at}]", names.dns_subdomain_with_underscore(domain), errors)
    for at, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{path}.options[{at}]", "must not be empty"))


def _own_users(spec: Object, path: str, errors: Errors) -> None:
    for field, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(field):
            errors.append(field_forbidden(f"{path}.{shown}", "when `hostUsers` is false"))
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for at, container in enumerate(spec.get(key) or ()):
            if container.get("volumeDevices"):
                errors.append(field_forbidden(f"{path}.{key}[{at}].volumeDevices", "when `hostUsers` is false"))


def _names(spec: Object, path: str, errors: Errors) -> None:
    for field, check in (("serviceAccountName", names.dns_subdomain), ("nodeName", names.dns_subdomain)):
        if spec.get(field):
            names_valid(spec[field], f"{path}.{field}", check(spec[field]), errors)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            names_valid(spec[field], f"{path}.{field}", names.dns_label(spec[field]), errors)
    override = spec.get("hostnameOverride")
    if override is not None:
        names_valid(override, f"{path}.hostnameOverride", names.dns_subdomain(override), errors)
        if len(override) > _LONGEST_HOSTNAME:
            errors.append(too_long(f"{path}.hostnameOverride", _LONGEST_HOSTNAME))
        for other in ("setHostnameAsFQDN", "hostNetwork"):
            if spec.get(other):
                detail = f"may not be specified when {other} is true"
                errors.append(field_forbidden(f"{path}.hostnameOverride", detail))
    if spec.get("tolerations"):
        placement.tolerations(spec["tolerations"], f"{path}.tolerations", errors)
    for at, alias in enumerate(spec.get("hostAliases") or ()):
        strict_ip(alias.get("ip", ""), f"{path}.hostAliases[{at}].ip", errors)
        for number, name in enumerate(alias.get("hostnames") or ()):
            where = f"{path}.hostAliases[{at}].hostnames[{number}]"
            names_valid(name, where, names.dns_subdomain(name), errors)
    for field in ("priorityClassName", "runtimeClassName"):
        if spec.get(field):
            names_valid(spec[field], f"{path}.{field}", names.dns_subdomain(spec[field]), errors)
    preemption = spec.get("preemptionPolicy")
    if preemption is not None:
        chosen(preemption, f"{path}.preemptionPolicy", ("PreemptLowerPriority", "Never"), errors)
