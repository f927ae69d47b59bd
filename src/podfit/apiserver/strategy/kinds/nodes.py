"""Strategies of Nodes and Namespaces."""

from __future__ import annotations

import re
from typing import Any

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.resize.dialects import DIALECTS, LABEL
from podfit.api.status import DUPLICATE, FieldError, duplicate, go_quote, go_value, invalid, not_supported, required
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.apiserver.strategy import meta, resourcelists
from podfit.apiserver.strategy.addresses import cidr_warnings, strict_cidr
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import label_name, same_family_twice
from podfit.apiserver.strategy.kinds.avoided import avoided_pods
from podfit.apiserver.strategy.podspec.placement import TAINT_EFFECTS

_LONGEST_FEATURE = 253
_FEATURE = re.compile(r"[A-Z][A-Za-z0-9]*(/[A-Za-z0-9]+)*")
_CIDR_FIXED = 'node updates may not change podCIDR except from "" to valid'


class NodeStrategy(Strategy):
    update_checks = "wc"
    has_generation = False

    def default(self, obj: Object) -> None:
        status = obj.setdefault("status", {})
        _sync_ranges(obj.setdefault("spec", {}))
        resourcelists.normalise(status.get("capacity"))
        resourcelists.normalise(status.get("allocatable"))
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        obj.setdefault("spec", {}).pop("configSource", None)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if not (old.get("spec") or {}).get("configSource"):
            # Nodes are no longer configured through this field; it is only preserved.
            (new.get("spec") or {}).pop("configSource", None)
        super().prepare_update(new, old, subresource)

    def warnings_create(self, obj: Object) -> list[str]:
        spec = obj.get("spec") or {}
        found = []
        if spec.get("externalID"):
            found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
        for at, text in enumerate(spec.get("podCIDRs") or ()):
            found += cidr_warnings(text, f"spec.podCIDRs[{at}]")
        return found

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return [] if subresource else self.warnings_create(new)

    def reset_status(self, obj: Object) -> None:
        """Keeps the status of a new node, because an agent registers its node in one request."""

    def validate(self, obj: Object) -> Errors:
        errors = avoided_pods(obj)
        _taints((obj.get("spec") or {}).get("taints") or (), errors)
        _resources(obj, errors)
        swap = (((obj.get("status") or {}).get("nodeInfo") or {}).get("swap") or {}).get("capacity")
        if swap is not None and swap <= 0:
            errors.append(invalid("metadata.nodeSwapStatus.capacity", swap, "must be greater than zero"))
        _features(obj, errors)
        ranges = (obj.get("spec") or {}).get("podCIDRs") or []
        for at, text in enumerate(ranges):
            strict_cidr(text, f"spec.podCIDRs[{at}]", errors)
        if len(ranges) > 1 and same_family_twice([text.partition("/")[0] for text in ranges]):
            detail = "may specify no more than one CIDR for each IP family"
            errors.append(invalid("spec.podCIDRs", ranges, detail))
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        errors = self.validate_update_meta(new, old, subresource)
        if not subresource:
            # Kubernetes validates the whole node as well, so errors in taints and resources are reported twice.
            errors += self.validate(new)
        errors += avoided_pods(new)
        _resources(new, errors)
        _features(new, errors)
        seen: list[Object] = []
        for at, address in enumerate((new.get("status") or {}).get("addresses") or ()):
            if address in seen:
                shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
                errors.append(duplicate(f"status.addresses[{at}]", shown))
            seen.append(address)
        spec, stored = new.get("spec") or {}, old.get("spec") or {}
        ranges, fixed = spec.get("podCIDRs") or [], stored.get("podCIDRs") or []
        if fixed and len(ranges) != len(fixed):
            errors.append(forbidden("spec.podCIDRs", _CIDR_FIXED))
        elif fixed:
            changed = sum(mine != kept for mine, kept in zip(ranges, fixed, strict=True))
            errors.extend(forbidden("spec.podCIDRs", _CIDR_FIXED) for _ in range(changed))
        if stored.get("providerID") and spec.get("providerID") != stored["providerID"]:
            detail = 'node updates may not change providerID except from "" to valid'
            errors.append(forbidden("spec.providerID", detail))
        _taints(spec.get("taints") or (), errors)
        if spec.get("externalID", "") != stored.get("externalID", ""):
            errors.append(forbidden("spec.externalID", "may not be updated"))
        return errors


def _sync_ranges(spec: Object) -> None:
    """Makes podCIDR the first of podCIDRs; if they differ, the older field takes precedence."""
    one, several = spec.get("podCIDR"), spec.get("podCIDRs")
    if one and (not several or several[0] != one):
        spec["podCIDRs"] = [one]
    elif several:
        spec["podCIDR"] = several[0]


def _taints(taints: Any, errors: Errors) -> None:
    seen: set[tuple[str, str]] = set()
    for at, taint in enumerate(taints):
        path, key, effect = f"metadata.taints[{at}]", taint.get("key", ""), taint.get("effect", "")
        label_name(key, f"{path}.key", errors)
        complaints = names.label_value(taint.get("value", ""))
        if complaints:
            errors.append(invalid(f"{path}.value", taint["value"], ";".join(complaints)))
        if not effect:
            errors.append(required(f"{path}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(not_supported(f"{path}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError(DUPLICATE, path, detail, go_value(shown)))
        seen.add((key, effect))


def _resources(node: Object, errors: Errors) -> None:
    status = node.get("status") or {}
    for kind in ("capacity", "allocatable"):
        for name, text in (status.get(kind) or {}).items():
            resourcelists.amount(name, Quantity.parse(text), f"status.{kind}.{name}", errors)


def _features(node: Object, errors: Errors) -> None:
    """Validates that declared features are a sorted list of distinct names."""
    before: str | None = None
    for at, name in enumerate((node.get("status") or {}).get("declaredFeatures") or ()):
        path = f"status.declaredFeatures[{at}]"
        if before is not None and name == before:
            errors.append(duplicate(path, name))
        elif before is not None and name < before:
            errors.append(invalid(path, name, "list must be sorted alphabetically"))
        if len(name) > _LONGEST_FEATURE:
            detail = f"invalid feature name {go_quote(name)}: must be no more than {_LONGEST_FEATURE} characters"
            errors.append(invalid(path, name, detail))
        elif not _FEATURE.fullmatch(name):
            detail = (
                f"invalid feature name {go_quote(name)}: must start with an UpperCamelCase segment, with subsequent "
                "segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric "
                "characters and slashes"
            )
            errors.append(invalid(path, name, detail))
        before = name


def _space_finalizers(namespace: Object, path: str) -> Errors:
    errors: Errors = []
    for at, finalizer in enumerate((namespace.get("spec") or {}).get("finalizers") or ()):
        here = path.format(at)
        errors.extend(invalid(here, finalizer, text) for text in names.qualified_name(finalizer))
        meta.finalizer_name(finalizer, here, errors)
    return errors


class NamespaceStrategy(Strategy):
    update_checks = "wc"
    has_generation = False

    def default(self, obj: Object) -> None:
        """Sets the name of every namespace as a label, so that selectors can match it."""
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        if not status.get("phase"):
            status["phase"] = "Active"
        metadata = obj.setdefault("metadata", {})
        if metadata.get("name"):
            if metadata.get("labels") is None:
                metadata["labels"] = {}
            metadata["labels"]["kubernetes.io/metadata.name"] = metadata["name"]

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        self.default(obj)

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Active"}

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return names.dns_label(name, prefix)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "status":
            meta.keep(new, old, "spec")
        elif subresource == "finalize":
            meta.keep(new, old, "status")
        else:
            spec = new.setdefault("spec", {})
            meta.keep(spec, old.get("spec") or {}, "finalizers")
            meta.keep(new, old, "status")
        meta.carry_over(new, old)

    def validate(self, obj: Object) -> Errors:
        return _space_finalizers(obj, "spec.finalizers")

    def validate_create(self, obj: Object) -> Errors:
        return super().validate_create(obj) + _dialect(obj, {})

    def validate_change(self, new: Object, old: Object) -> Errors:
        return _dialect(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if subresource != "finalize":
            return super().validate_update(new, old, subresource)
        return self.validate_update_meta(new, old, "status") + _space_finalizers(new, "spec.finalizers[{}]")

    def validate_status(self, new: Object, old: Object) -> Errors:
        going = bool((new.get("metadata") or {}).get("deletionTimestamp"))
        phase, wanted = (new.get("status") or {}).get("phase", ""), "Terminating" if going else "Active"
        if phase == wanted:
            return []
        state = "not empty" if going else "empty"
        return [invalid("status.Phase", phase, f"may only be '{wanted}' if `deletionTimestamp` is {state}")]


def _dialect(new: Object, old: Object) -> Errors:
    """Validates that the resize dialect in a namespace's label exists."""
    chosen, before = ((each.get("metadata") or {}).get("labels") or {} for each in (new, old))
    word = chosen.get(LABEL)
    if word is None or word in DIALECTS or word == before.get(LABEL):
        return []
    return [not_supported(f"metadata.labels[{LABEL}]", word, DIALECTS)]
