"""The checks that the restricted standard adds to baseline: current practice for hardening pods."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.apiserver.admission.podsecurity.baseline import PROFILES, seccomp
from podfit.apiserver.admission.podsecurity.violations import (
    Check,
    Violation,
    contexts,
    has_user_namespace,
    is_windows,
    named,
    plural,
    pod_context,
    quoted,
    setters,
    spec_of,
)

_VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
    *("persistentVolumeClaim", "projected", "secret"),
)
_OTHER_VOLUMES = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *("flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk"),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)


def unless_windows(check: Check) -> Check:
    """Skips a check for Windows pods: validation forbids its fields there."""
    return lambda pod: None if is_windows(pod) else check(pod)


def unless_user_namespace(check: Check) -> Check:
    return lambda pod: None if has_user_namespace(pod) else check(pod)


def privilege_escalation(pod: Object) -> Violation | None:
    names = [name for name, context in contexts(pod) if context.get("allowPrivilegeEscalation") is not False]
    if not names:
        return None
    return Violation(
        "allowPrivilegeEscalation != false",
        f"{named('container', names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def capabilities(pod: Object) -> Violation | None:
    keeping, adding, added = [], [], set()
    for name, context in contexts(pod):
        own = context.get("capabilities") or {}
        if "ALL" not in (own.get("drop") or ()):
            keeping.append(name)
        beyond = set(own.get("add") or ()) - {"NET_BIND_SERVICE"}
        if beyond:
            adding.append(name)
            added |= beyond
    details = []
    if keeping:
        details.append(f'{named("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        what = quoted(sorted(added))
        details.append(f"{named('container', adding)} must not include {what} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def volumes(pod: Object) -> Violation | None:
    names, types = [], set()
    for volume in spec_of(pod).get("volumes") or ():
        if all(volume.get(source) is None for source in _VOLUMES):
            names.append(volume.get("name") or "")
            types.add(next((source for source in _OTHER_VOLUMES if volume.get(source) is not None), "unknown"))
    if not names:
        return None
    return Violation(
        "restricted volume types",
        f"{named('volume', names)} {plural('uses', names, 'use')} {named('restricted volume type', sorted(types))}",
    )


def run_as_non_root(pod: Object) -> Violation | None:
    of_pod = pod_context(pod).get("runAsNonRoot")
    of_containers = [(name, context.get("runAsNonRoot")) for name, context in contexts(pod)]
    where = setters(of_pod is False, [name for name, value in of_containers if value is False])
    if where:
        return Violation("runAsNonRoot != true", f"{where} must not set securityContext.runAsNonRoot=false")
    unset = [] if of_pod else [name for name, value in of_containers if value is None]
    if not unset:
        return None
    return Violation(
        "runAsNonRoot != true", f"pod or {named('container', unset)} must set securityContext.runAsNonRoot=true"
    )


def run_as_user(pod: Object) -> Violation | None:
    names = [name for name, context in contexts(pod) if context.get("runAsUser") == 0]
    where = setters(pod_context(pod).get("runAsUser") == 0, names)
    return Violation("runAsUser=0", f"{where} must not set runAsUser=0") if where else None


def seccomp_required(pod: Object) -> Violation | None:
    bad = seccomp(pod)
    if bad is not None or pod_context(pod).get("seccompProfile") is not None:
        return bad
    unset = [name for name, context in contexts(pod) if context.get("seccompProfile") is None]
    if not unset:
        return None
    allowed = " or ".join(f'"{profile}"' for profile in PROFILES)
    return Violation(
        "seccompProfile",
        f"pod or {named('container', unset)} must set securityContext.seccompProfile.type to {allowed}",
    )
