"""Strategies of CSIDrivers, CSINodes and CSIStorageCapacities: what volume drivers report about themselves."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.quantity import ZERO, Quantity
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import duplicate, invalid, not_supported, required, too_long
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, NOT_NEGATIVE, equal, label_selector, names_valid, non_negative
from podfit.apiserver.strategy.kinds.plain import UncountedStrategy
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default
from podfit.apiserver.strategy.pod.warnings import deprecated_node_label

_GROUP = "storage.k8s.io"
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLES = ("Persistent", "Ephemeral")
_LONGEST_NAME, _LONGEST_NODE_ID = 63, 256
_SHORTEST_TOKEN_S, _SHORTEST_UPDATE_S = 600, 10
_TOKENS_UNPROTECTED = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def driver_name(name: str, path: str, errors: Errors) -> None:
    """Validates the name of a driver in volumes, nodes and attachments."""
    if not name:
        errors.append(required(path))
        return
    if len(name.encode()) > _LONGEST_NAME:
        errors.append(too_long(path, _LONGEST_NAME))
    names_valid(name, path, names.dns_subdomain(name.lower()), errors)


class CSIDriverStrategy(Strategy):
    update_checks = "c"
    has_status = False
    unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        set_default(spec, "attachRequired", True)
        set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
        for field in ("podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"):
            set_default(spec, field, False)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def prepare_create(self, obj: Object) -> None:
        obj["spec"].pop("preventPodSchedulingIfMissing", None)
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("generation"):
            metadata.pop("generation", None)

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        new["spec"].pop("preventPodSchedulingIfMissing", None)
        super().prepare_update(new, old, subresource)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        policy = spec.get("fsGroupPolicy")
        if policy is not None and policy not in _FS_GROUP_POLICIES:
            errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES))
        tokens = spec.get("tokenRequests") or []
        _tokens(tokens, errors)
        for mode in spec.get("volumeLifecycleModes") or ():
            if mode not in _LIFECYCLES:
                errors.append(not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLES))
        period, in_secrets = spec.get("nodeAllocatableUpdatePeriodSeconds"), spec.get("serviceAccountTokenInSecrets")
        if period is not None and period < _SHORTEST_UPDATE_S:
            detail = f"must be greater than or equal to {_SHORTEST_UPDATE_S} seconds"
            errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, detail))
        if in_secrets is not None and not tokens:
            detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
            errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, detail))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        for field, path in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            if not equal(new["spec"].get(field), (old.get("spec") or {}).get(field)):
                errors.append(invalid(f"spec.{path}", new["spec"].get(field), IMMUTABLE))
        return errors

    def warnings_create(self, obj: Object) -> list[str]:
        spec = obj.get("spec") or {}
        exposed = spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None
        return [_TOKENS_UNPROTECTED] if exposed else []

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        same = equal((new.get("spec") or {}).get("tokenRequests"), (old.get("spec") or {}).get("tokenRequests"))
        return [] if same else self.warnings_create(new)


def _tokens(tokens: list[Object], errors: Errors) -> None:
    seen: set[str] = set()
    for at, token in enumerate(tokens):
        path, audience = f"spec.tokenRequests[{at}]", token.get("audience", "")
        if audience in seen:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        seen.add(audience)
        seconds = token.get("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_TOKEN_S:
            detail = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))
        if seconds is not None and seconds > 1 << 32:
            detail = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{path}.expirationSeconds", seconds, detail))


class CSINodeStrategy(UncountedStrategy):
    update_checks = "w"
    unconditional_update = False

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for at, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
            _node_driver(driver, f"spec.drivers[{at}]", seen, errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        struct = type_named("CSINodeDriver", _GROUP)
        drivers = (new.get("spec") or {}).get("drivers") or ()
        errors: Errors = []
        for before in (old.get("spec") or {}).get("drivers") or ():
            for driver in drivers:
                if driver.get("name") != before.get("name"):
                    continue
                # The number of volumes may change at any time; all other fields are immutable once a driver is
                # registered.
                mine, stored = ({**obj, "allocatable": None} for obj in (driver, before))
                if not equal(mine, stored):
                    errors.append(invalid("spec.drivers", as_go(mine, struct), IMMUTABLE))
        return errors


def _node_driver(driver: Object, path: str, seen: set[str], errors: Errors) -> None:
    name, node = driver.get("name", ""), driver.get("nodeID", "")
    driver_name(name, f"{path}.name", errors)
    if not node:
        errors.append(required(f"{path}.nodeID"))
    if len(node.encode()) > _LONGEST_NODE_ID:
        errors.append(invalid(f"{path}.nodeID", node, f"must be {_LONGEST_NODE_ID} characters or less"))
    non_negative(driver.get("allocatable") or {}, "count", f"{path}.allocatable", errors)
    if name in seen:
        errors.append(duplicate(f"{path}.name", name))
    seen.add(name)
    keys = driver.get("topologyKeys") or []
    for at, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if key in keys[:at]:
            errors.append(duplicate(path, key))
        names_valid(key, path, names.qualified_name(key), errors)


class CSIStorageCapacityStrategy(UncountedStrategy):
    update_checks = "wc"
    unconditional_update = False

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        label_selector(obj.get("nodeTopology"), "nodeTopology", errors)
        name = obj.get("storageClassName", "")
        names_valid(name, "storageClassName", names.dns_subdomain(name), errors)
        capacity = obj.get("capacity")
        if capacity is not None and Quantity.parse(capacity) < ZERO:
            errors.append(invalid("capacity", capacity, NOT_NEGATIVE))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        return [
            invalid(field, new.get(field), IMMUTABLE)
            for field in ("nodeTopology", "storageClassName")
            if not equal(new.get(field), old.get(field))
        ]

    def warnings_create(self, obj: Object) -> list[str]:
        selector = obj.get("nodeTopology") or {}
        keys = [(at, row.get("key", "")) for at, row in enumerate(selector.get("matchExpressions") or ())]
        found = [
            f"nodeTopology.matchExpressions[{at}].key: {key} is {text}"
            for at, key in keys
            if (text := deprecated_node_label(key))
        ]
        return found + [
            f"nodeTopology.matchLabels.{key}: {text}"
            for key in selector.get("matchLabels") or ()
            if (text := deprecated_node_label(key))
        ]

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return self.warnings_create(new)
