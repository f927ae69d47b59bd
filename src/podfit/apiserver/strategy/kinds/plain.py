"""Strategies of kinds with few rules: configuration, accounts, leases, classes, and custom resources."""

from __future__ import annotations

import base64

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import Kind
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.status import duplicate, go_quote, invalid, not_supported, required, too_long
from podfit.api.status import field_forbidden as forbidden
from podfit.api.text import names
from podfit.api.text.gojson import GoSyntaxError, parse
from podfit.apiserver.strategy import resourcelists
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, NOT_NEGATIVE, labels, names_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.meta import STANDARD_FINALIZERS, carry_over, keep
from podfit.apiserver.strategy.pod.warnings import deprecated_node_label
from podfit.apiserver.strategy.podspec import placement

_LARGEST_DATA = 1024 * 1024
_IMMUTABLE_SET = "field is immutable when `immutable` is set"
_HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_ENFORCED = "kubernetes.io/enforce-mountable-secrets"
_PREEMPTION = ("PreemptLowerPriority", "Never")


class DataStrategy(Strategy):
    """ConfigMaps and Secrets: keys with values, and a flag that makes them immutable."""

    has_generation = False
    has_status = False
    changes_first = True
    contents: tuple[str, ...] = ("data", "binaryData")

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        if old.get("immutable"):
            if not new.get("immutable"):
                errors.append(forbidden("immutable", _IMMUTABLE_SET))
            for field in self.contents:
                if (new.get(field) or {}) != (old.get(field) or {}):
                    errors.append(forbidden(field, _IMMUTABLE_SET))
        return errors


class ConfigMapStrategy(DataStrategy):
    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        size = 0
        for key, value in data.items():
            names_valid(key, f"data[{key}]", names.config_map_key(key), errors)
            if key in binary:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
            size += len(value.encode())
        for key, value in binary.items():
            names_valid(key, f"binaryData[{key}]", names.config_map_key(key), errors)
            size += len(value) * 3 // 4
        if size > _LARGEST_DATA:
            errors.append(too_long("[]", _LARGEST_DATA))
        return errors


class SecretStrategy(DataStrategy):
    contents = ("data",)

    def default(self, obj: Object) -> None:
        if not obj.get("type"):
            obj["type"] = "Opaque"
        plain = obj.pop("stringData", None)
        if plain:
            data = obj.setdefault("data", {})
            for key, value in plain.items():
                data[key] = base64.b64encode(value.encode()).decode()

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        data = obj.get("data") or {}
        for key in data:
            names_valid(key, f"data[{key}]", names.config_map_key(key), errors)
        if sum(len(value or "") * 3 // 4 for value in data.values()) > _LARGEST_DATA:
            errors.append(too_long("data", _LARGEST_DATA))
        self._type(obj, data, errors)
        return errors

    def warnings_create(self, obj: Object) -> list[str]:
        data = obj.get("data") or {}
        if obj.get("type") != "kubernetes.io/tls":
            return []
        from podfit.apiserver.strategy.kinds.key_pairs import key_pair_problem

        problem = key_pair_problem(data.get("tls.crt") or "", data.get("tls.key") or "")
        return [problem] if problem else []

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return self.warnings_create(new)

    def _type(self, obj: Object, data: Object, errors: Errors) -> None:
        match obj.get("type"):
            case "kubernetes.io/service-account-token":
                key = "kubernetes.io/service-account.name"
                if not ((obj.get("metadata") or {}).get("annotations") or {}).get(key):
                    errors.append(required(f"metadata.annotations[{key}]"))
            case "kubernetes.io/dockercfg":
                _json(data, ".dockercfg", errors)
            case "kubernetes.io/dockerconfigjson":
                _json(data, ".dockerconfigjson", errors)
            case "kubernetes.io/basic-auth":
                if "username" not in data and "password" not in data:
                    errors.extend((required("data[username]"), required("data[password]")))
            case "kubernetes.io/ssh-auth":
                if not data.get("ssh-privatekey"):
                    errors.append(required("data[ssh-privatekey]"))
            case "kubernetes.io/tls":
                errors.extend(required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data)

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        if new.get("type") != old.get("type"):
            errors.append(invalid("type", new.get("type"), IMMUTABLE))
        return errors + super().validate_change(new, old)


def _json(data: Object, key: str, errors: Errors) -> None:
    if key not in data:
        errors.append(required(f"data[{key}]"))
        return
    try:
        parsed = parse(base64.b64decode(data[key] or ""))
    except GoSyntaxError as error:
        errors.append(invalid(f"data[{key}]", "<secret contents redacted>", str(error)))
        return
    if not isinstance(parsed, (dict, type(None))):
        detail = f"json: cannot unmarshal {json_word(parsed)} into Go value of type map[string]interface {{}}"
        errors.append(invalid(f"data[{key}]", "<secret contents redacted>", detail))


class UncountedStrategy(Strategy):
    """Kinds without generation and status."""

    has_generation = False
    has_status = False


class LeaseStrategy(UncountedStrategy):
    update_checks = "c"
    strict_finalizers = False
    unconditional_update = False
    create_on_update = True

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _drop_election(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        _drop_election(new)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        transitions = spec.get("leaseTransitions")
        if transitions is not None and transitions < 0:
            errors.append(invalid("spec.leaseTransitions", transitions, NOT_NEGATIVE))
        return errors


def _drop_election(lease: Object) -> None:
    """Coordinated leader election is disabled by default in Kubernetes, and its fields are dropped."""
    spec = lease.get("spec") or {}
    if "strategy" in spec or "preferredHolder" in spec:
        lease["spec"] = {field: value for field, value in spec.items() if field not in ("strategy", "preferredHolder")}


class PriorityClassStrategy(Strategy):
    update_checks = "c"
    has_status = False

    def kept_for(self, name: str) -> str:
        return "this is a system priority class and cannot be deleted" if name in _SYSTEM_CLASSES else ""

    def default(self, obj: Object) -> None:
        set_default(obj, "preemptionPolicy", "PreemptLowerPriority")

    def spec_changed(self, new: Object, old: Object) -> bool:
        return False

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        name, value = (obj.get("metadata") or {}).get("name", ""), obj.get("value", 0)
        if name.startswith("system-"):
            if _SYSTEM_CLASSES.get(name) != value:
                known = name in _SYSTEM_CLASSES
                why = (
                    f"value of {name} PriorityClass must be {_SYSTEM_CLASSES[name]}"
                    if known
                    else (f"{name} is not a known system priority class")
                )
                detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                errors.append(forbidden("metadata.name", detail))
        elif value > _HIGHEST_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
            errors.append(forbidden("value", detail))
        policy = obj.get("preemptionPolicy")
        if policy == "":
            errors.append(required("preemptionPolicy"))
        elif policy is not None and policy not in _PREEMPTION:
            errors.append(not_supported("preemptionPolicy", policy, _PREEMPTION))
        return errors

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        errors = self.validate_update_meta(new, old, subresource)
        if new.get("value", 0) != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
            errors.append(invalid("preemptionPolicy", new.get("preemptionPolicy"), IMMUTABLE))
        return errors


class ServiceAccountStrategy(UncountedStrategy):
    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        _name_secrets(obj)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        _name_secrets(new)

    def warnings_create(self, obj: Object) -> list[str]:
        return self.warnings_update(obj, {})

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        mine, before = ((each.get("metadata") or {}).get("annotations") or {} for each in (new, old))
        if _ENFORCED not in mine or _ENFORCED in before:
            return []
        text = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_ENFORCED}]: {text}"]


def _name_secrets(account: Object) -> None:
    """Keeps only the names of references to secrets."""
    if secrets := account.get("secrets"):
        account["secrets"] = [{"name": row["name"]} if row.get("name") else {} for row in secrets]


class RuntimeClassStrategy(UncountedStrategy):
    update_checks = "wc"
    strict_finalizers = False
    unconditional_update = False

    def default(self, obj: Object) -> None:
        resourcelists.normalise((obj.get("overhead") or {}).get("podFixed"))

    def warnings_create(self, obj: Object) -> list[str]:
        labels = (obj.get("scheduling") or {}).get("nodeSelector") or ()
        return [f"scheduling.nodeSelector: {text}" for key in labels if (text := deprecated_node_label(key))]

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return self.warnings_create(new)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        handler = obj.get("handler", "")
        if handler:
            names_valid(handler, "handler", names.dns_label(handler), errors)
        else:
            errors.append(required("handler"))
        for name, text in ((obj.get("overhead") or {}).get("podFixed") or {}).items():
            path = f"overhead.limits[{name}]"
            names_valid(name, path, resourcelists.container_resource_name(name), errors)
            resourcelists.amount(name, Quantity.parse(text), path, errors)
        scheduling = obj.get("scheduling") or {}
        labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector", errors)
        tolerations: list[Object] = scheduling.get("tolerations") or []
        placement.tolerations(tolerations, "scheduling.tolerations", errors)
        keys = [[row.get(name, "") for name in ("key", "operator", "value", "effect")] for row in tolerations]
        for at, key in enumerate(keys):
            if key in keys[:at]:
                shown = dict(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
                shown["TolerationSeconds"] = tolerations[at].get("tolerationSeconds")
                errors.append(duplicate(f"scheduling.tolerations[{at}]", shown))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        same = new.get("handler") == old.get("handler")
        return [] if same else [invalid("handler", new.get("handler"), IMMUTABLE)]


class CustomStrategy(Strategy):
    """Custom resources: all fields except metadata and status count as the spec. `writing.custom_schema` checks
    schemas."""

    update_checks = "c"
    unconditional_update = False
    strict_finalizers = False

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self._own_status = kind.subresource("status") is not None

    def warnings_create(self, obj: Object) -> list[str]:
        return _finalizer_warnings(obj, {})

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return [] if subresource else _finalizer_warnings(new, old)

    def prepare_create(self, obj: Object) -> None:
        if self._own_status:
            obj.pop("status", None)
        obj.setdefault("metadata", {})["generation"] = 1

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "status":
            self._status_only(new, old)
        elif self._own_status:
            keep(new, old, "status")
        self.count_generation(new, old)
        carry_over(new, old)

    def _status_only(self, new: Object, old: Object) -> None:
        status = new.get("status")
        metadata = {**(old.get("metadata") or {})}
        for field in ("resourceVersion", "managedFields", "uid"):
            if field in (new.get("metadata") or {}):
                metadata[field] = new["metadata"][field]
        new.clear()
        new.update({key: value for key, value in old.items() if key not in ("metadata", "status")})
        new["metadata"] = metadata
        if status is not None:
            new["status"] = status

    def spec_changed(self, new: Object, old: Object) -> bool:
        skipped = ("metadata", "status") if self._own_status else ("metadata",)
        fields = (new.keys() | old.keys()) - set(skipped)
        return any(new.get(field) != old.get(field) for field in fields)


def _finalizer_warnings(new: Object, old: Object) -> list[str]:
    """Warnings about new finalizers without a domain, which custom resources may have."""
    known = (old.get("metadata") or {}).get("finalizers") or ()
    added = set((new.get("metadata") or {}).get("finalizers") or ()).difference(known)
    return [
        f"metadata.finalizers: {go_quote(name)}: prefer a domain-qualified finalizer name to avoid accidental "
        "conflicts with other finalizer writers"
        for name in sorted(added)
        if "/" not in name and name not in STANDARD_FINALIZERS
    ]
