"""Annotations of pods and templates with a meaning to the server, and the fields that replaced them."""

from __future__ import annotations

from collections.abc import Iterator

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import go_quote, invalid
from podfit.api.text.formats import fits
from podfit.api.text.gojson import GoSyntaxError, parse
from podfit.apiserver.strategy.checks import Errors, local_descending_path
from podfit.apiserver.strategy.podspec.placement import tolerations
from podfit.apiserver.strategy.podspec.security import app_armor

MIRROR = "kubernetes.io/config.mirror"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
APP_ARMOR_TEXT = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_LOCALHOST = "localhost/"
_APP_ARMOR_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
_LISTS = ("initContainers", "containers", "ephemeralContainers")


def pod_annotations(values: dict[str, str] | None, spec: Object, path: str, errors: Errors) -> None:
    if not values:
        return
    if MIRROR in values and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", values[MIRROR], detail))
    if values.get(_TOLERATIONS):
        _written_tolerations(values[_TOLERATIONS], path, errors)
    if not has_valid_cost(values):
        errors.append(invalid(f"{path}[{DELETION_COST}]", values[DELETION_COST], "must be a 32bit integer"))
    for key, profile in values.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            _seccomp(profile, f"{path}.{key}", errors)
    for key, profile in values.items():
        if key.startswith(APP_ARMOR):
            _app_armor(key, profile, spec, path, errors)


def has_valid_cost(values: dict[str, str] | None) -> bool:
    cost = (values or {}).get(DELETION_COST)
    return cost is None or _is_int32(cost)


def _is_int32(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    # Kubernetes accepts neither "+1" nor "01": such values would not survive a round trip.
    if digits.startswith("0") and text != "0":
        return False
    return fits(digits, 2**31 if text.startswith("-") else 2**31 - 1)


def _written_tolerations(text: str, path: str, errors: Errors) -> None:
    try:
        listed = parse(text.encode())
    except GoSyntaxError as error:
        errors.append(invalid(path, _TOLERATIONS, str(error)))
        return
    if isinstance(listed, list):
        tolerations([each for each in listed if isinstance(each, dict)], f"{path}.{_TOLERATIONS}", errors)
    elif listed is not None:
        word = {dict: "object", str: "string", bool: "bool"}.get(listed.__class__, "number")
        detail = f"json: cannot unmarshal {word} into Go value of type []core.Toleration"
        errors.append(invalid(path, _TOLERATIONS, detail))


def _seccomp(profile: str, path: str, errors: Errors) -> None:
    if profile in ("runtime/default", "docker/default", "unconfined"):
        return
    if profile.startswith(_LOCALHOST):
        local_descending_path(profile.removeprefix(_LOCALHOST), path, errors)
    else:
        errors.append(invalid(path, profile, "must be a valid seccomp profile"))


def _app_armor(key: str, profile: str, spec: Object, path: str, errors: Errors) -> None:
    name = key.removeprefix(APP_ARMOR)
    if all(container.get("name") != name for _, container in _containers(spec, "")):
        errors.append(invalid(f"{path}[{key}]", name, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCALHOST):
        detail = f"invalid AppArmor profile name: {go_quote(profile)}"
        errors.append(invalid(f"{path}[{key}]", profile, detail))


def _containers(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    for key in _LISTS:
        for at, container in enumerate(spec.get(key) or ()):
            yield f"{path}.{key}[{at}]", container


def profiles_agree(metadata: Object, spec: Object, path: str, errors: Errors) -> None:
    """Validates that a profile given as an annotation and as a field is the same."""
    values = metadata.get("annotations") or {}
    if not values:
        return
    context = spec.get("securityContext") or {}
    if _SECCOMP_POD in values:
        where = f"{path}.securityContext.seccompProfile"
        _same(values[_SECCOMP_POD], context.get("seccompProfile"), "seccomp", where, errors)
    for place, container in _containers(spec, path):
        key = _SECCOMP_CONTAINER + container.get("name", "")
        if key in values:
            field = (container.get("securityContext") or {}).get("seccompProfile")
            _same(values[key], field, "seccomp", f"{place}.securityContext.seccompProfile", errors)
    if (spec.get("os") or {}).get("name") == "windows":
        return
    for place, container in _containers(spec, path):
        key = APP_ARMOR + container.get("name", "")
        if key in values:
            own = (container.get("securityContext") or {}).get("appArmorProfile")
            field = own if own is not None else context.get("appArmorProfile")
            _same(values[key], field, "apparmor", f"{place}.securityContext.appArmorProfile", errors)


def copy_app_armor(pod: Object) -> list[str]:
    """Sets the AppArmor profile of containers from their annotations. Returns warnings about these."""
    annotations, spec = (pod.get("metadata") or {}).get("annotations"), pod.get("spec") or {}
    if not annotations or (spec.get("os") or {}).get("name") == "windows":
        return []
    of_pod = (spec.get("securityContext") or {}).get("appArmorProfile")
    found = []
    for _, container in _containers(spec, ""):
        key = APP_ARMOR + container.get("name", "")
        own = container.get("securityContext") or {}
        if key not in annotations or own.get("appArmorProfile") is not None:
            continue
        profile = app_armor_field(annotations[key])
        if profile is not None and profile == of_pod:
            continue
        if profile is not None:
            container["securityContext"] = {**own, "appArmorProfile": profile}
        found.append(f"metadata.annotations[{key}]: {APP_ARMOR_TEXT}")
    return found


def app_armor_field(written: str) -> Object | None:
    """The field equivalent to the annotation; None if the annotation is invalid."""
    if written in _APP_ARMOR_TYPES:
        return {"type": _APP_ARMOR_TYPES[written]}
    local = written.removeprefix(_LOCALHOST)
    if local == written:
        return None
    profile = {"type": "Localhost", "localhostProfile": local}
    errors: Errors = []
    app_armor(profile, "", errors)
    return None if errors else profile


def _same(written: str, field: Object | None, what: str, path: str, errors: Errors) -> None:
    kind = (field or {}).get("type")
    if field is None or kind not in ("Unconfined", "RuntimeDefault", "Localhost"):
        return
    if kind == "Localhost":
        if not written.startswith(_LOCALHOST):
            errors.append(forbidden(f"{path}.type", f"{what} type in annotation and field must match"))
        elif written.removeprefix(_LOCALHOST) != field.get("localhostProfile"):
            detail = f"{what} profile in annotation and field must match"
            errors.append(forbidden(f"{path}.localhostProfile", detail))
        return
    docker = ("docker/default",) if what == "seccomp" else ()
    allowed = ("unconfined",) if kind == "Unconfined" else ("runtime/default", *docker)
    if written not in allowed:
        errors.append(forbidden(f"{path}.type", f"{what} type in annotation and field must match"))
