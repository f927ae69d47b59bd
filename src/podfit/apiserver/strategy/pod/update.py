"""Rules for updates of a pod through its main endpoint and ephemeralcontainers: most fields are immutable."""

from __future__ import annotations

import json
from typing import Any

from podfit.api.objects import Object
from podfit.api.pods.resources import qos_class
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import go_quote, invalid, required
from podfit.apiserver.strategy import meta
from podfit.apiserver.strategy.checks import Errors, equal
from podfit.apiserver.strategy.pod.resize import masked_resources
from podfit.apiserver.strategy.podspec.annotations import APP_ARMOR, MIRROR
from podfit.apiserver.strategy.podspec.containers import only_in_pods
from podfit.apiserver.strategy.podspec.placement import tolerations
from podfit.apiserver.strategy.podspec.spec import annotations_of

_CHANGEABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)
_RESIZABLE = "`spec.containers[*].resources` (for CPU/memory only)"
_MAX_INT32 = 2**31 - 1


def validate(new: Object, old: Object, errors: Errors, resizable: bool = False) -> None:
    """Validates an update. `resizable`: amounts of cpu and memory may change, as in older dialects of resizing."""
    fixed_annotations(new, old, errors)
    spec, stored = new.get("spec") or {}, old["spec"]
    for key in ("containers", "initContainers"):
        if not _images(spec.get(key) or [], stored.get(key) or [], f"spec.{key}", errors):
            return
    if not _deadline(spec, stored, errors):
        return
    _only_added(spec.get("tolerations") or [], stored.get("tolerations") or [], errors)
    _only_removed(spec.get("schedulingGates") or [], stored.get("schedulingGates") or [], errors)
    if equal(spec, stored):
        return
    if resizable and ((old.get("status") or {}).get("qosClass") or qos_class(old)) != qos_class(new):
        shown = (new.get("status") or {}).get("qosClass", "")
        errors.append(invalid("metadata", shown, "Pod QoS is immutable"))
    masked = _masked(spec, stored, errors)
    if resizable:
        masked["containers"] = [
            {**mine, "resources": _masked_resources(mine.get("resources") or {}, kept.get("resources") or {})}
            for mine, kept in zip(masked["containers"], stored["containers"], strict=True)
        ]
    if not equal(masked, stored):
        allowed = ",".join((*_CHANGEABLE, _RESIZABLE) if resizable else _CHANGEABLE)
        detail = f"pod updates may not change fields other than {allowed}\n{difference(stored, masked)}"
        errors.append(forbidden("spec", detail))


def _masked_resources(mine: Object, kept: Object) -> Object:
    """The new resources with the old amounts. Releases that resize by an update of the pod do not compare lists that
    the stored pod lacks."""
    return masked_resources({kind: amounts for kind, amounts in mine.items() if kept.get(kind)}, kept)


def fixed_annotations(new: Object, old: Object, errors: Errors) -> None:
    """Validates that annotations about the creation of the pod are unchanged."""
    mine = (new.get("metadata") or {}).get("annotations") or {}
    stored = (old.get("metadata") or {}).get("annotations") or {}
    if not mine and not stored:
        return
    for key, value in stored.items():
        if mine.get(key) != value:
            if key.startswith(APP_ARMOR):
                detail = "may not remove or update AppArmor annotations"
                errors.append(forbidden(f"metadata.annotations[{key}]", detail))
            elif key == MIRROR:
                detail = "may not remove or update mirror pod annotation"
                errors.append(forbidden(f"metadata.annotations[{key}]", detail))
    for key in mine:
        if key in stored:
            continue
        if key.startswith(APP_ARMOR):
            errors.append(forbidden(f"metadata.annotations[{key}]", "may not add AppArmor annotations"))
        elif key == MIRROR:
            errors.append(forbidden(f"metadata.annotations[{key}]", "may not add mirror pod annotation"))
    annotations_of(new, old, errors)


def _images(new: list[Object], old: list[Object], path: str, errors: Errors) -> bool:
    if len(new) != len(old):
        errors.append(forbidden(path, "pod updates may not add or remove containers"))
        return False
    for at, container in enumerate(new):
        if not container.get("image"):
            errors.append(required(f"{path}[{at}].image"))
        only_in_pods(container, f"{path}[{at}]", errors)
    return True


def _deadline(new: Object, old: Object, errors: Errors) -> bool:
    path, deadline, before = (
        "spec.activeDeadlineSeconds",
        new.get("activeDeadlineSeconds"),
        old.get("activeDeadlineSeconds"),
    )
    if deadline is None:
        if before is not None:
            errors.append(invalid(path, None, "must not update from a positive integer to nil value"))
        return True
    if not 0 <= deadline <= _MAX_INT32:
        errors.append(invalid(path, deadline, f"must be between 0 and {_MAX_INT32}, inclusive"))
        return False
    if before is not None and before < deadline:
        errors.append(invalid(path, deadline, "must be less than or equal to previous value"))
        return False
    return True


def _only_added(new: list[Object], old: list[Object], errors: Errors) -> None:
    if new == old:
        tolerations(new, "spec.tolerations", errors)
        return
    bare = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in bare for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden("spec.tolerations", detail))
        return
    tolerations(new, "spec.tolerations", errors)


def _without_seconds(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds" and value}


def _only_removed(new: list[Object], old: list[Object], errors: Errors) -> None:
    known = {gate.get("name") for gate in old}
    for at, gate in enumerate(new):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            errors.append(forbidden(f"spec.schedulingGates[{at}].name", detail))


def _masked(new: Object, old: Object, errors: Errors) -> Object:
    """The new spec with the stored values of all mutable fields, so that any difference is a forbidden change."""
    masked = dict(new)
    for key in ("containers", "initContainers"):
        if masked.get(key):
            masked[key] = [
                {**mine, "image": stored.get("image")} for mine, stored in zip(masked[key], old[key], strict=True)
            ]
    meta.keep(masked, old, "activeDeadlineSeconds", "schedulingGates", "tolerations")
    if masked.get("virtualMachine") and old.get("virtualMachine"):
        meta.keep(masked, old, "virtualMachine")
    grace, before = masked.get("terminationGracePeriodSeconds"), old.get("terminationGracePeriodSeconds")
    if before is not None and before < 0 and grace == 1:
        masked["terminationGracePeriodSeconds"] = before
    if old.get("schedulingGates"):
        _mask_gated(masked, old, errors)
    return masked


def _mask_gated(masked: Object, old: Object, errors: Errors) -> None:
    """Masks the scheduling constraints of a gated pod, which may still be tightened."""
    selector, before = masked.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in before.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(invalid("spec.nodeSelector", masked.get("nodeSelector"), detail))
    meta.keep(masked, old, "nodeSelector")
    affinity, stored = dict(masked.get("affinity") or {}), old.get("affinity") or {}
    _only_narrowed(affinity.get("nodeAffinity"), stored.get("nodeAffinity"), errors)
    meta.keep(affinity, stored, "nodeAffinity")
    if affinity or old.get("affinity") is not None:
        masked["affinity"] = affinity
    else:
        masked.pop("affinity", None)


_REQUIRED_NODES = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"spec.affinity.nodeAffinity.{_REQUIRED_NODES}.nodeSelectorTerms"


def _only_narrowed(new: Object | None, old: Object | None, errors: Errors) -> None:
    """Validates that an update of a gated pod only adds requirements to required terms, and changes or removes none."""
    if equal(new, old):
        return
    terms, stored = (((each or {}).get(_REQUIRED_NODES) or {}).get("nodeSelectorTerms") or [] for each in (new, old))
    if not stored:
        return
    if len(terms) != len(stored):
        shown = [_term_as_go(term) for term in terms] if terms else None
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errors.append(invalid(_TERMS, shown, detail))
        return
    for at, (term, before) in enumerate(zip(terms, stored, strict=True)):
        if not _only_additions(term, before):
            detail = "only additions are allowed (no mutations or deletions)"
            errors.append(invalid(f"{_TERMS}[{at}]", _term_as_go(term), detail))


def _only_additions(new: Object, old: Object) -> bool:
    lists = [(new.get(field) or [], old.get(field) or []) for field in ("matchExpressions", "matchFields")]
    if not any(before for _, before in lists):
        # An empty term matches nothing; with requirements it could match.
        return not any(now for now, _ in lists)
    return all(equal(now[: len(before)], before) for now, before in lists)


def _term_as_go(term: Object) -> Object:
    """Formats a term with Go's field names: Kubernetes' internal type has no JSON names."""
    shown: Object = {}
    for field, name in (("matchExpressions", "MatchExpressions"), ("matchFields", "MatchFields")):
        shown[name] = [
            {"Key": each.get("key", ""), "Operator": each.get("operator", ""), "Values": each.get("values")}
            for each in term.get(field) or ()
        ] or None
    return shown


def difference(old: Any, new: Any) -> str:
    """The differences of two values, one line per side."""
    lines: list[str] = []
    _differ("", old, new, lines)
    return "\n".join(lines) + "\n"


def _differ(path: str, old: Any, new: Any, lines: list[str]) -> None:
    if equal(old, new, path.rpartition(".")[2]):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            _differ(f"{path}.{key}" if path else key, old.get(key), new.get(key), lines)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            _differ(f"{path}[{at}]", one, other, lines)
    else:
        for sign, value in (("-", old), ("+", new)):
            if value is not None:
                lines.append(f"{sign} \t{path}: {json.dumps(value, separators=(',', ':'), ensure_ascii=False)},")


# --- ephemeral containers -----------------------------------------------------------------------------------------


def prepare_ephemeral(new: Object, old: Object) -> None:
    """Restores everything but the list of ephemeral containers."""
    spec = dict(old["spec"])
    meta.keep(spec, new.get("spec") or {}, "ephemeralContainers")
    new["spec"] = spec
    meta.keep(new, old, "status")
    meta.reset_for_status(new, old)


def validate_ephemeral(new: Object, old: Object, errors: Errors) -> None:
    fixed_annotations(new, old, errors)
    if MIRROR in ((old.get("metadata") or {}).get("annotations") or {}):
        errors[:] = [forbidden("[]", "static pods do not support ephemeral containers")]
        return
    path = "spec.ephemeralContainers"
    mine = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or ()}
    for stored in old["spec"].get("ephemeralContainers") or ():
        name = stored.get("name", "")
        if name not in mine:
            detail = f"existing ephemeral containers {go_quote(name)} may not be removed\n"
            errors.append(forbidden(path, detail))
        elif not equal(stored, mine[name]):
            shown = difference(stored, mine[name])
            detail = f"existing ephemeral containers {go_quote(name)} may not be changed\n{shown}"
            errors.append(forbidden(path, detail))
