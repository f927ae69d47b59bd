"""Validation of containers: regular, init and ephemeral ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podfit.api.objects import Object
from podfit.api.pods import machines
from podfit.api.pods.resources import is_sidecar
from podfit.api.status import duplicate, field_not_found, invalid, not_supported, required, too_many
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy import resourcelists
from podfit.apiserver.strategy.checks import Errors, chosen, names_valid
from podfit.apiserver.strategy.podspec.environment import env, env_from
from podfit.apiserver.strategy.podspec.probes import probes, stop_signal
from podfit.apiserver.strategy.podspec.security import container_security
from podfit.apiserver.strategy.podspec.storage.mounts import volume_devices, volume_mounts

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTART = ("Always", "Never", "OnFailure")
_EPHEMERAL_FORBIDDEN = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_POINTERS = frozenset(("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"))
"""Fields that are set even if they are empty."""
_NO_SIDECAR = "may not be set for init containers without restartPolicy=Always"


@dataclass(frozen=True)
class PodRules:
    """The properties of its pod on which a container's validity depends."""

    volumes: Mapping[str, Object]
    claims: frozenset[str]
    grace_s: int | None
    restart_policy: str
    host_users: bool
    os_name: str
    runtime_class: str = ""


def containers(listed: list[Object], context: PodRules, path: str, errors: Errors) -> None:
    if not listed:
        errors.append(required(path))
        return
    seen: set[str] = set()
    for at, container in enumerate(listed):
        here = f"{path}[{at}]"
        _common(container, context, here, errors)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{here}.name", name))
        seen.add(name)
        probes(container, context.grace_s, here, errors)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            _restart_rules(container, here, errors)
    _host_port_conflicts(listed, path, errors)


def init_containers(listed: list[Object], regular: list[Object], context: PodRules, path: str, errors: Errors) -> None:
    seen = {container.get("name", "") for container in regular}
    for at, container in enumerate(listed):
        here = f"{path}[{at}]"
        _common(container, context, here, errors)
        if container.get("restartPolicy") is not None or container.get("restartPolicyRules"):
            _restart_rules(container, here, errors)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{here}.name", name))
        elif name:
            seen.add(name)
        _host_port_conflicts([container], path, errors)
        if is_sidecar(container):
            probes(container, context.grace_s, here, errors)
        else:
            for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
                if container.get(field) is not None:
                    errors.append(forbidden(f"{here}.{field}", _NO_SIDECAR))
            no_restart_on_resize(container, here, errors)


def ephemeral_containers(listed: list[Object], spec: Object, context: PodRules, path: str, errors: Errors) -> None:
    others = {each.get("name", "") for key in ("containers", "initContainers") for each in spec.get(key) or ()}
    seen = set(others)
    for at, container in enumerate(listed):
        here = f"{path}[{at}]"
        _common(container, context, here, errors)
        only_in_pods(container, here, errors)
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{here}.name", name))
        seen.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(field_not_found(f"{here}.targetContainerName", target))
        for field in _EPHEMERAL_FORBIDDEN:
            if container.get(field) or (field in _POINTERS and container.get(field) is not None):
                errors.append(forbidden(f"{here}.{field}", "cannot be set for an Ephemeral Container"))
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    where = f"{here}.volumeMounts[{number}].{field}"
                    errors.append(forbidden(where, "cannot be set for an Ephemeral Container"))


def only_in_pods(container: Object, path: str, errors: Errors) -> None:
    """Checks that apply to pods but not to templates, whose images may be padded with spaces."""
    image = container.get("image") or ""
    if image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))


def _common(container: Object, context: PodRules, path: str, errors: Errors) -> None:
    name = container.get("name")
    if not name:
        errors.append(required(f"{path}.name"))
    else:
        names_valid(name, f"{path}.name", names.dns_label(name), errors)
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy")
    if policy != "File":
        chosen(policy, f"{path}.terminationMessagePolicy", ("File", "FallbackToLogsOnError"), errors)
    if container.get("ports"):
        _ports(container["ports"], f"{path}.ports", errors)
    if container.get("env"):
        env(container["env"], context.volumes, f"{path}.env", errors)
    if container.get("envFrom"):
        env_from(container["envFrom"], f"{path}.envFrom", errors)
    if container.get("volumeMounts"):
        volume_mounts(container, context.volumes, f"{path}.volumeMounts", errors)
    if container.get("volumeDevices"):
        volume_devices(
            container, context.volumes, f"{path}.volumeDevices", errors, machine=context.runtime_class == machines.CLASS
        )
    if container.get("imagePullPolicy") not in PULL_POLICIES:
        chosen(container.get("imagePullPolicy"), f"{path}.imagePullPolicy", PULL_POLICIES, errors)
    resizable(container, context.claims, context.restart_policy, path, errors)
    if container.get("securityContext"):
        container_security(container["securityContext"], context.host_users, f"{path}.securityContext", errors)
    if container.get("lifecycle"):
        stop_signal(container["lifecycle"], context.os_name, f"{path}.lifecycle", errors)


def resizable(container: Object, claims: frozenset[str], restart_policy: str, path: str, errors: Errors) -> None:
    """Rejects changes that a resize may not make to any container."""
    if container.get("resources"):
        resourcelists.requirements(container["resources"], f"{path}.resources", claims, errors)
    if container.get("resizePolicy"):
        _resize_policy(container["resizePolicy"], restart_policy, f"{path}.resizePolicy", errors)


def _ports(ports: list[Object], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, port in enumerate(ports):
        here, name = f"{path}[{at}]", port.get("name")
        if name:
            complaints = names.port_name(name)
            names_valid(name, f"{here}.name", complaints, errors)
            if not complaints and name in seen:
                errors.append(duplicate(f"{here}.name", name))
            seen.add(name)
        number = port.get("containerPort", 0)
        if not number:
            errors.append(required(f"{here}.containerPort"))
        elif not 1 <= number <= 65535:
            errors.append(invalid(f"{here}.containerPort", number, names.port_number(number)[0]))
        host = port.get("hostPort", 0)
        if host and not 1 <= host <= 65535:
            errors.append(invalid(f"{here}.hostPort", host, names.port_number(host)[0]))
        if port.get("protocol") not in PROTOCOLS:
            chosen(port.get("protocol"), f"{here}.protocol", PROTOCOLS, errors)


def _host_port_conflicts(listed: list[Object], path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, container in enumerate(listed):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                errors.append(duplicate(f"{path}[{at}].ports[{number}].hostPort", key))
            seen.add(key)


def _resize_policy(policies: list[Object], restart_policy: str, path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(f"{path}[{at}]", name))
        seen.add(name)
        chosen(name, path, ("cpu", "memory"), errors)
        chosen(restart, path, ("NotRequired", "RestartContainer"), errors)
        if restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, detail))


def no_restart_on_resize(container: Object, path: str, errors: Errors) -> None:
    for at, policy in enumerate(container.get("resizePolicy") or ()):
        if policy.get("restartPolicy") == "RestartContainer":
            where = f"{path}.resizePolicy[{at}].restartPolicy"
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            errors.append(invalid(where, "RestartContainer", detail))


def _restart_rules(container: Object, path: str, errors: Errors) -> None:
    """Validates a container's restart policy, and its rules by exit code."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is not None and policy not in _RESTART:
        errors.append(not_supported(f"{path}.restartPolicy", policy, _RESTART))
    if rules and not policy:
        detail = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", detail))
        return
    if len(rules) > 20:
        errors.append(too_many(f"{path}.restartPolicyRules", len(rules), 20))
    for at, rule in enumerate(rules):
        _restart_rule(rule, f"{path}.restartPolicyRules[{at}]", errors)


def _restart_rule(rule: Object, path: str, errors: Errors) -> None:
    actions = ("Restart", "RestartAllContainers")
    if rule.get("action") not in actions:
        errors.append(not_supported(f"{path}.action", rule.get("action", ""), actions))
    codes = rule.get("exitCodes")
    if codes is None:
        errors.append(required(f"{path}.exitCodes", "must be specified"))
        return
    operator, values = codes.get("operator", ""), codes.get("values") or ()
    if operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.exitCodes.operator", operator, ("In", "NotIn")))
    if len(values) > 255:
        errors.append(too_many(f"{path}.exitCodes.values", len(values), 255))
