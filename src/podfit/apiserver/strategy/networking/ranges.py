"""Strategies of IPAddresses and ServiceCIDRs: the owner of each address, and the ranges for Services."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.schema import type_named
from podfit.api.schema.golang.gonames import as_go
from podfit.api.status import invalid, required
from podfit.api.text import names
from podfit.apiserver.strategy.addresses import canonical_cidr, canonical_ip, parse_cidr
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, equal, names_valid
from podfit.apiserver.strategy.kinds.plain import UncountedStrategy
from podfit.apiserver.strategy.meta import reset_for_status

_GROUP = "networking.k8s.io"


class IPAddressStrategy(UncountedStrategy):
    update_checks = "wc"

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        errors: Errors = []
        canonical_ip(name, "", errors)
        return [error.detail for error in errors]

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        parent, path = (obj.get("spec") or {}).get("parentRef"), "spec.parentRef"
        if parent is None:
            return [required(path)]
        if parent.get("group"):
            names_valid(parent["group"], f"{path}.group", names.dns_subdomain(parent["group"]), errors)
        for field in ("resource", "name", "namespace"):
            text = parent.get(field, "")
            if text:
                names_valid(text, f"{path}.{field}", names.path_segment(text), errors)
            elif field != "namespace":
                errors.append(required(f"{path}.{field}"))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        mine, stored = ((obj.get("spec") or {}).get("parentRef") for obj in (new, old))
        if equal(mine, stored):
            return []
        shown = None if mine is None else as_go(mine, type_named("ParentReference", _GROUP))
        return [invalid("spec.parentRef", shown, IMMUTABLE)]


class ServiceCIDRStrategy(Strategy):
    update_checks = "c"
    has_generation = False

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        if subresource == "status":
            reset_for_status(new, old)
        super().prepare_update(new, old, subresource)

    def validate_create(self, obj: Object) -> Errors:
        errors = self._whole(obj.get("metadata") or {})
        _cidrs(_listed(obj), errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        mine, stored = _listed(new), _listed(old)
        errors: Errors = []
        if len(mine) == len(stored):
            for at, text in enumerate(mine):
                if text != stored[at]:
                    errors.append(invalid(f"spec.cidrs[{at}]", text, IMMUTABLE))
        elif len(stored) == 1 and len(mine) == 2:
            # A range of the other family may be added, to make a cluster dual-stack.
            if mine[0] != stored[0]:
                errors.append(invalid("spec.cidrs[0]", mine[0], IMMUTABLE))
            _cidrs(mine, errors)
        else:
            errors.append(invalid("spec.cidrs", (new.get("spec") or {}).get("cidrs"), IMMUTABLE))
        return errors


def _listed(obj: Object) -> list[str]:
    return (obj.get("spec") or {}).get("cidrs") or []


def _cidrs(cidrs: list[str], errors: Errors) -> None:
    if not cidrs:
        errors.append(required("spec.cidrs", "at least one CIDR required"))
        return
    if len(cidrs) > 2:
        errors.append(invalid("spec.cidrs", {"CIDRs": cidrs}, "may only hold up to 2 values"))
        return
    for at, text in enumerate(cidrs):
        canonical_cidr(text, f"spec.cidrs[{at}]", errors)
    families = {network.version for text in cidrs if (network := parse_cidr(text)) is not None}
    if len(cidrs) == 2 and len(families) == 1 and None not in map(parse_cidr, cidrs):
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid("spec.cidrs", cidrs, detail))
