"""Converts users and privileges of containers to CRI's security context."""

from __future__ import annotations

from podfit.agent.runtimes.values import Security
from podfit.cri import api_pb2 as api

LOCALHOST = "Localhost/"


def container_security(
    security: Security, options: api.NamespaceOption, target_id: str
) -> api.LinuxContainerSecurityContext:
    if target_id:
        options.pid, options.target_id = api.TARGET, target_id
    return api.LinuxContainerSecurityContext(
        privileged=security.privileged,
        namespace_options=options,
        capabilities=api.Capability(
            add_capabilities=[_capability(name) for name in security.add_capabilities],
            drop_capabilities=[_capability(name) for name in security.drop_capabilities],
        ),
        run_as_user=number(security.uid),
        # CRI does not accept a group without a user.
        run_as_group=number(security.gid) if security.uid is not None else None,
        supplemental_groups=list(security.groups),
        supplemental_groups_policy=policy(security),
        readonly_rootfs=security.read_only_root,
        no_new_privs=security.escalation is False,
        masked_paths=[] if security.unmasked_proc else list(MASKED),
        readonly_paths=[] if security.unmasked_proc else list(READ_ONLY),
        seccomp=_profile(security.seccomp),
        apparmor=_profile(security.apparmor) if security.apparmor else None,
        apparmor_profile=_old_apparmor(security.apparmor),
    )


MASKED = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def _profile(name: str) -> api.SecurityProfile:
    """Converts a profile: "" is unconfined, Localhost/NAME is a profile on the node."""
    if name.startswith(LOCALHOST):
        kind, reference = api.SecurityProfile.Localhost, name.removeprefix(LOCALHOST)
        return api.SecurityProfile(profile_type=kind, localhost_ref=reference)
    default = name == "RuntimeDefault"
    return api.SecurityProfile(
        profile_type=api.SecurityProfile.RuntimeDefault if default else api.SecurityProfile.Unconfined
    )


def _old_apparmor(name: str) -> str:
    """The AppArmor profile for runtimes older than the field `apparmor`."""
    if name.startswith(LOCALHOST):
        return "localhost/" + name.removeprefix(LOCALHOST)
    return {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}.get(name, "")


def _capability(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def number(value: int | None) -> api.Int64Value | None:
    return api.Int64Value(value=value) if value is not None else None


def policy(security: Security) -> api.SupplementalGroupsPolicy:
    return api.Strict if security.strict_groups else api.Merge
