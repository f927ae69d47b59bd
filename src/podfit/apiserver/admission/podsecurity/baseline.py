"""The checks of the baseline standard, which prevents known privilege escalations."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.status import go_quote
from podfit.apiserver.admission.podsecurity.violations import (
    Check,
    Violation,
    annotations_of,
    containers,
    contexts,
    named,
    plural,
    pod_context,
    quoted,
    setters,
    spec_of,
)

_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_OF_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
PROFILES = ("RuntimeDefault", "Localhost")
_HANDLERS = (
    *(("livenessProbe",), ("readinessProbe",), ("startupProbe",)),
    *(("lifecycle", "postStart"), ("lifecycle", "preStop")),
)
_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
        *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)


def app_armor(pod: Object) -> Violation | None:
    bad, where = _profiles(pod, "appArmorProfile")
    annotations = sorted(
        f"{key}={go_quote(value)}"
        for key, value in annotations_of(pod).items()
        if key.startswith(_APP_ARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    places = [where] if where else []
    if annotations:
        places.append(plural("annotation", annotations))
    if not places:
        return None
    values = [*bad, *annotations]
    return Violation(
        plural("forbidden AppArmor profile", values),
        f"{' and '.join(places)} must not set AppArmor profile type to {quoted(values)}",
    )


def capabilities(pod: Object) -> Violation | None:
    names, added = [], set()
    for name, context in contexts(pod):
        beyond = set((context.get("capabilities") or {}).get("add") or ()) - _CAPABILITIES
        if beyond:
            names.append(name)
            added |= beyond
    if not names:
        return None
    return Violation(
        "non-default capabilities",
        f"{named('container', names)} must not include {quoted(sorted(added))} in securityContext.capabilities.add",
    )


def host_namespaces(pod: Object) -> Violation | None:
    spec = spec_of(pod)
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def host_path_volumes(pod: Object) -> Violation | None:
    names = [
        volume.get("name") or "" for volume in spec_of(pod).get("volumes") or () if volume.get("hostPath") is not None
    ]
    return Violation("hostPath volumes", named("volume", names)) if names else None


def host_ports(pod: Object) -> Violation | None:
    names, taken = [], set()
    for name, container in containers(pod):
        own = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        if own:
            names.append(name)
            taken |= own
    if not names:
        return None
    return Violation(
        "hostPort",
        f"{named('container', names)} {plural('uses', names, 'use')} {plural('hostPort', taken)} "
        f"{', '.join(sorted(taken))}",
    )


def handler_hosts(pod: Object) -> Violation | None:
    """Probes and lifecycle handlers that connect to a host other than the pod."""
    names, hosts = set(), set()
    for name, container in containers(pod):
        own = set()
        for path in _HANDLERS:
            handler: Any = container
            for field in path:
                handler = handler.get(field) or {}
            own |= {(handler.get(action) or {}).get("host") or "" for action in ("httpGet", "tcpSocket")}
        own.discard("")
        if own:
            names.add(name)
            hosts |= own
    if not names:
        return None
    return Violation(
        "probe or lifecycle host",
        f"{named('container', sorted(names))} {plural('uses', names, 'use')} "
        f"{named('probe or lifecycle host', sorted(hosts))}",
    )


def privileged(pod: Object) -> Violation | None:
    names = [name for name, context in contexts(pod) if context.get("privileged")]
    if not names:
        return None
    return Violation("privileged", f"{named('container', names)} must not set securityContext.privileged=true")


def proc_mount(pod: Object) -> Violation | None:
    names, mounts = [], set()
    for name, context in contexts(pod):
        mount = context.get("procMount")
        if mount is not None and mount != "Default":
            names.append(name)
            mounts.add(mount)
    if not names:
        return None
    return Violation(
        "procMount",
        f"{named('container', names)} must not set securityContext.procMount to {quoted(sorted(mounts))}",
    )


def se_linux(*allowed: str) -> Check:
    """Forbids a user, a role, and types that are not in `allowed`."""

    def check(pod: Object) -> Violation | None:
        of_pod = pod_context(pod).get("seLinuxOptions") or {}
        of_containers = [(name, context.get("seLinuxOptions") or {}) for name, context in contexts(pod)]
        names = [name for name, options in of_containers if forbidden(options)]
        where = setters(forbidden(of_pod), names)
        if not where:
            return None
        all_options = [of_pod, *(options for _, options in of_containers)]
        types = {options.get("type") or "" for options in all_options}.difference(allowed, ("",))
        what = [named("type", sorted(types))] if types else []
        what += [f"{field} may not be set" for field in ("user", "role") if any(o.get(field) for o in all_options)]
        return Violation("seLinuxOptions", f"{where} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}")

    def forbidden(options: dict[str, Any]) -> bool:
        return bool((options.get("type") or "") not in ("", *allowed) or options.get("user") or options.get("role"))

    return check


def seccomp_annotations(pod: Object) -> Violation | None:
    """The check of standards up to version 1.18, before seccomp profiles became fields."""
    annotations = annotations_of(pod)
    keys = {_SECCOMP_OF_POD, *(_SECCOMP_OF_CONTAINER + name for name, _ in containers(pod))}
    allowed = ("runtime/default", "docker/default")
    bad = sorted(
        f"{key}={go_quote(annotations[key])}"
        for key in keys
        if key in annotations and annotations[key] not in allowed and not annotations[key].startswith("localhost/")
    )
    return Violation("seccompProfile", f"forbidden {plural('annotation', bad)} {', '.join(bad)}") if bad else None


def seccomp(pod: Object) -> Violation | None:
    bad, where = _profiles(pod, "seccompProfile")
    if not bad:
        return None
    return Violation("seccompProfile", f"{where} must not set securityContext.seccompProfile.type to {quoted(bad)}")


def sysctls(*allowed: str) -> Check:
    def check(pod: Object) -> Violation | None:
        names = [row.get("name") or "" for row in pod_context(pod).get("sysctls") or ()]
        bad = [name for name in names if name not in allowed]
        return Violation("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def windows_host_process(pod: Object) -> Violation | None:
    where = setters(
        _is_host_process(pod_context(pod)), [name for name, context in contexts(pod) if _is_host_process(context)]
    )
    if not where:
        return None
    return Violation("hostProcess", f"{where} must not set securityContext.windowsOptions.hostProcess=true")


def _is_host_process(context: dict[str, Any]) -> bool:
    return bool((context.get("windowsOptions") or {}).get("hostProcess"))


def _profiles(pod: Object, field: str) -> tuple[list[str], str]:
    """The types of profiles that are neither the runtime's default nor a file of the node, and where they are set."""
    of_pod = _bad_type(pod_context(pod), field)
    of_containers = [(name, bad) for name, context in contexts(pod) if (bad := _bad_type(context, field)) is not None]
    types = {bad for _, bad in of_containers} | ({of_pod} if of_pod is not None else set())
    return sorted(types), setters(of_pod is not None, [name for name, _ in of_containers])


def _bad_type(context: dict[str, Any], field: str) -> str | None:
    profile = context.get(field)
    kind = None if profile is None else profile.get("type") or ""
    return None if kind in PROFILES else kind
