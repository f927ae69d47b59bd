"""The strategy of NetworkPolicies."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.strategy.addresses import cidr_warnings, parse_cidr, strict_cidr
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import label_selector, names_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


class NetworkPolicyStrategy(Strategy):
    update_checks = "c"
    has_status = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for direction, _ in _DIRECTIONS:
            for rule in spec.get(direction) or ():
                for port in rule.get("ports") or ():
                    set_default(port, "protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate_create(self, obj: Object) -> Errors:
        return self._whole(obj.get("metadata") or {}) + _policy(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        known = [text for _, block in _blocks(old) for text in (block.get("cidr", ""), *(block.get("except") or ()))]
        return self.validate_update_meta(new, old, subresource) + _policy(new.get("spec") or {}, known)

    def warnings_create(self, obj: Object) -> list[str]:
        found: list[str] = []
        for path, block in _blocks(obj):
            found += cidr_warnings(block.get("cidr", ""), f"{path}.cidr")
            for at, text in enumerate(block.get("except") or ()):
                found += cidr_warnings(text, f"{path}.except[{at}]")
        return found

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        return self.warnings_create(new)


def _blocks(obj: Object) -> Iterator[tuple[str, Object]]:
    for direction, peers in _DIRECTIONS:
        for at, rule in enumerate((obj.get("spec") or {}).get(direction) or ()):
            for number, peer in enumerate(rule.get(peers) or ()):
                if peer.get("ipBlock") is not None:
                    yield f"spec.{direction}[{at}].{peers}[{number}].ipBlock", peer["ipBlock"]


def _policy(spec: Object, known: Collection[str] = ()) -> Errors:
    errors: Errors = []
    label_selector(spec.get("podSelector"), "spec.podSelector", errors)
    for direction, peers in _DIRECTIONS:
        for at, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{at}]"
            for number, port in enumerate(rule.get("ports") or ()):
                _port(port, f"{path}.ports[{number}]", errors)
            for number, peer in enumerate(rule.get(peers) or ()):
                _peer(peer, f"{path}.{peers}[{number}]", known, errors)
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        errors.append(invalid("spec.policyTypes", types, "may not specify more than two policyTypes"))
        return errors
    for at, word in enumerate(types):
        if word not in _TYPES:
            errors.append(not_supported(f"spec.policyTypes[{at}]", word, _TYPES))
    return errors


def _port(port: Object, path: str, errors: Errors) -> None:
    protocol, number, last = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    if number is None or isinstance(number, str):
        if last is not None:
            missing = "not specified" if number is None else "non-numeric"
            errors.append(invalid(f"{path}.endPort", last, f"may not be specified when `port` is {missing}"))
        if number is not None:
            names_valid(number, f"{path}.port", names.port_name(number), errors)
        return
    for text in names.port_number(number):
        errors.append(invalid(f"{path}.port", number, text))
    if last is not None:
        if last < number:
            errors.append(invalid(f"{path}.endPort", number, "must be greater than or equal to `port`"))
        for text in names.port_number(last):
            errors.append(invalid(f"{path}.endPort", last, text))


def _peer(peer: Object, path: str, known: Collection[str], errors: Errors) -> None:
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    for field in given:
        if field == "ipBlock":
            _block(peer[field], f"{path}.ipBlock", known, errors)
        else:
            label_selector(peer[field], f"{path}.{field}", errors)
    if not given:
        errors.append(required(path, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(path, "may not specify both ipBlock and another peer"))


def _block(block: Object, path: str, known: Collection[str], errors: Errors) -> None:
    if not block.get("cidr"):
        errors.append(required(f"{path}.cidr"))
        return
    outer = strict_cidr(block["cidr"], f"{path}.cidr", errors, known)
    if outer is None:
        return
    for at, text in enumerate(block.get("except") or ()):
        strict_cidr(text, f"{path}.except[{at}]", errors, known)
        inner = parse_cidr(text)
        if inner is None:
            continue
        inside = inner.version == outer.version and inner.network_address in outer
        if not inside or outer.prefixlen >= inner.prefixlen:
            errors.append(invalid(f"{path}.except[{at}]", text, "must be a strict subset of `cidr`"))
