"""Validation of security contexts, of pods and of containers."""

from __future__ import annotations

import re

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import duplicate, invalid, not_supported, required, too_long
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy.checks import Errors, local_descending_path, names_valid

_ID_RANGE = "must be between 0 and 2147483647, inclusive"
_SYSCTL_PATTERN = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_sysctl = re.compile(_SYSCTL_PATTERN)
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_LONGEST_PROFILE = 4095
_USER_ONLY_DOTS = re.compile(r"[. ]+")
_USER_FORBIDDEN = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*")


def _id(context: Object, field: str, path: str, errors: Errors) -> None:
    value = context.get(field)
    if value is not None and not 0 <= value <= 2**31 - 1:
        errors.append(invalid(f"{path}.{field}", value, _ID_RANGE))


def pod_security(context: Object, spec: Object, path: str, errors: Errors) -> None:
    _id(context, "fsGroup", path, errors)
    _id(context, "runAsUser", path, errors)
    _id(context, "runAsGroup", path, errors)
    for at, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= 2**31 - 1:
            errors.append(invalid(f"{path}.supplementalGroups[{at}]", group, _ID_RANGE))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    if context.get("sysctls"):
        _sysctls(context["sysctls"], spec, f"{path}.sysctls", errors)
    _word(context, "fsGroupChangePolicy", ("Always", "OnRootMismatch"), path, errors)
    _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)
    _windows(context.get("windowsOptions"), f"{path}.windowsOptions", errors)
    app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile", errors)
    _word(context, "supplementalGroupsPolicy", ("Merge", "Strict"), path, errors)
    _word(context, "seLinuxChangePolicy", ("Recursive",), path, errors)


def _word(context: Object, field: str, allowed: tuple[str, ...], path: str, errors: Errors) -> None:
    if context.get(field) is not None and context[field] not in allowed:
        errors.append(not_supported(f"{path}.{field}", context[field], allowed))


def _sysctls(sysctls: list[Object], spec: Object, path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, sysctl in enumerate(sysctls):
        here, name = f"{path}[{at}].name", sysctl.get("name", "")
        if not name:
            errors.append(required(here))
        elif len(name) > 253 or not _sysctl.match(name):
            detail = f"must have at most 253 characters and match regex {_SYSCTL_PATTERN}"
            errors.append(invalid(here, name, detail))
        elif name in seen:
            errors.append(duplicate(here, name))
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            errors.append(invalid(here, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and dotted.startswith(("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")):
            errors.append(invalid(here, name, "may not be specified when 'hostIPC' is true"))
        seen.add(name)


def container_security(context: Object, host_users: bool, path: str, errors: Errors) -> None:
    _id(context, "runAsUser", path, errors)
    _id(context, "runAsGroup", path, errors)
    proc_mount = context.get("procMount")
    if proc_mount is not None:
        if proc_mount not in ("Default", "Unmasked"):
            errors.append(not_supported(f"{path}.procMount", proc_mount, ("Default", "Unmasked")))
        if proc_mount == "Unmasked" and host_users:
            detail = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(f"{path}.procMount", proc_mount, detail))
    _seccomp(context.get("seccompProfile"), f"{path}.seccompProfile", errors)
    if context.get("allowPrivilegeEscalation") is False:
        _no_escalation(context, path, errors)
    _windows(context.get("windowsOptions"), f"{path}.windowsOptions", errors)
    app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile", errors)


def _no_escalation(context: Object, path: str, errors: Errors) -> None:
    if context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, _as_go(context), detail))
    for capability in (context.get("capabilities") or {}).get("add") or ():
        if capability == "CAP_SYS_ADMIN":
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(path, _as_go(context), detail))


def _as_go(context: Object) -> Object:
    shown: Object = as_go(context, type_named("SecurityContext"))
    return shown


def _seccomp(profile: Object | None, path: str, errors: Errors) -> None:
    if profile is None:
        return
    kind = profile.get("type", "")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    local = profile.get("localhostProfile")
    if kind == "Localhost":
        if local is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            local_descending_path(local, f"{path}.localhostProfile", errors)
    elif local is not None:
        shown = {"Type": kind, "LocalhostProfile": local}
        detail = "can only be set when seccomp type is Localhost"
        errors.append(invalid(f"{path}.localhostProfile", shown, detail))


def app_armor(profile: Object | None, path: str, errors: Errors) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        if local is None:
            errors.append(required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost"))
            return
        if local != local.strip():
            errors.append(invalid(f"{path}.localhostProfile", local, "must not be padded with whitespace"))
        elif not local:
            errors.append(required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost"))
        if len(local) > _LONGEST_PROFILE:
            errors.append(too_long(f"{path}.localhostProfile", _LONGEST_PROFILE))
    elif kind in _PROFILES:
        if local is not None:
            detail = "can only be set when AppArmor type is Localhost"
            errors.append(invalid(f"{path}.localhostProfile", local, detail))
    elif not kind:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    else:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))


def _windows(options: Object | None, path: str, errors: Errors) -> None:
    if not options:
        return
    name = options.get("gmsaCredentialSpecName")
    if name is not None:
        names_valid(name, f"{path}.gmsaCredentialSpecName", names.dns_subdomain(name), errors)
    credential = options.get("gmsaCredentialSpec")
    if credential == "":
        errors.append(invalid(f"{path}.gmsaCredentialSpec", "", "gmsaCredentialSpec cannot be an empty string"))
    elif credential is not None and len(credential) > 64 * 1024:
        errors.append(invalid(f"{path}.gmsaCredentialSpec", credential, "gmsaCredentialSpec size must be under 64 KiB"))
    user = options.get("runAsUserName")
    if user is not None:
        for text in _windows_user(user):
            errors.append(invalid(f"{path}.runAsUserName", user, text))


def _windows_user(text: str) -> list[str]:
    if not text:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(text):
        return ["runAsUserName cannot contain control characters"]
    if text.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, has_domain, user = text.rpartition("\\")
    found: list[str] = []
    if len(domain) >= 256:
        found.append("runAsUserName's Domain length must be under 256 characters")
    if has_domain and not (_NET_BIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        found.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        found.append("runAsUserName's User cannot be empty")
    elif len(user) > 104:
        found.append("runAsUserName's User length must not be longer than 104 characters")
    if _USER_ONLY_DOTS.fullmatch(user):
        found.append("runAsUserName's User cannot contain only periods or spaces")
    if _USER_FORBIDDEN.search(user):
        found.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return found


# --- fields forbidden by the operating system -------------------------------------------------------------------------

_NOT_ON_WINDOWS_POD = (
    "appArmorProfile",
    "seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "shareProcessNamespace",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_OF_THE_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_NOT_ON_WINDOWS_CONTAINER = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def operating_system(spec: Object, path: str, errors: Errors) -> None:
    name = (spec.get("os") or {}).get("name", "")
    if not name:
        errors.append(required(f"{path}.os.name"))
    elif name not in ("linux", "windows"):
        errors.append(not_supported(f"{path}.os", name, ("linux", "windows")))
    elif name == "linux":
        for where, context in _contexts(spec, path):
            if context.get("windowsOptions") is not None:
                errors.append(forbidden(f"{where}.windowsOptions", "windows options cannot be set for a linux pod"))
    else:
        _on_windows(spec, path, errors)


def _contexts(spec: Object, path: str) -> list[tuple[str, Object]]:
    found = [(f"{path}.securityContext", spec.get("securityContext") or {})]
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for at, container in enumerate(spec.get(key) or ()):
            found.append((f"{path}.{key}[{at}].securityContext", container.get("securityContext") or {}))
    return found


def _on_windows(spec: Object, path: str, errors: Errors) -> None:
    (where, pod), *containers = _contexts(spec, path)
    detail = "cannot be set for a windows pod"
    for field in _NOT_ON_WINDOWS_POD:
        if field in _OF_THE_SPEC:
            unset = (None, False) if field in ("hostPID", "hostIPC") else (None,)
            if not any(spec.get(field) is value for value in unset):
                errors.append(forbidden(f"{path}.{field}", detail))
        elif pod.get(field) is not None and pod[field] != []:
            errors.append(forbidden(f"{where}.{field}", detail))
    for place, context in containers:
        fields = [field for field in _NOT_ON_WINDOWS_CONTAINER if context.get(field) is not None]
        errors.extend(forbidden(f"{place}.{field}", detail) for field in fields)


def host_process(spec: Object, path: str, errors: Errors) -> None:
    """Validates Windows host-process containers: either all containers of a pod or none, and only with the host's
    network."""
    whole = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    _, *containers = _contexts(spec, path)
    flagged = 0
    for where, context in containers:
        own = (context.get("windowsOptions") or {}).get("hostProcess")
        if whole is not None and own is not None and whole != own:
            detail = f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            errors.append(invalid(f"{where}.windowsOptions.hostProcess", own, detail))
        flagged += bool(own if own is not None else whole)
    if flagged:
        if flagged != len(containers):
            detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
            errors.append(invalid(path, "", detail))
        if not spec.get("hostNetwork"):
            detail = "hostNetwork must be true if pod contains any hostProcess containers"
            errors.append(invalid(f"{path}.hostNetwork", False, detail))
