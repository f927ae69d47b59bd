"""Strategies of Ingresses and IngressClasses."""

from __future__ import annotations

import re

from podfit.api.objects import Object
from podfit.api.status import field_forbidden as forbidden
from podfit.api.status import go_quote, invalid, not_supported, required, too_long
from podfit.api.text import names
from podfit.apiserver.strategy.addresses import ip_warnings, strict_ip
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, names_valid, parse_ip
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default

_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_SCOPES = ("Cluster", "Namespace")
_BAD_SEQUENCES, _BAD_ENDINGS = ("//", "/./", "/../", "%2f", "%2F"), ("/..", "/.")
_NOT_AN_IP = "must be a DNS name, not an IP address"
_LONGEST_CONTROLLER = 250
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


class IngressStrategy(Strategy):
    def reset_status(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def validate_create(self, obj: Object) -> Errors:
        errors = super().validate_create(obj)
        chosen, note = (obj.get("spec") or {}).get("ingressClassName"), _annotated(obj)
        if chosen is not None and note is not None and chosen != note:
            detail = "must match `ingressClassName` when both are specified"
            errors.append(invalid(f"annotations.{_CLASS_ANNOTATION}", note, detail))
        return errors

    def validate(self, obj: Object) -> Errors:
        return _ingress(obj.get("spec") or {})

    def validate_update(self, new: Object, old: Object, subresource: str = "") -> Errors:
        if subresource == "status":
            return super().validate_update(new, old, subresource)
        stored = old.get("spec") or {}
        known_secrets = any(
            names.dns_subdomain(row["secretName"]) for row in stored.get("tls") or () if row.get("secretName")
        )
        known_rules = any("*" in row.get("host", "") and _bad_rule(row) for row in stored.get("rules") or ())
        errors = self.validate_update_meta(new, old)
        return errors + _ingress(new.get("spec") or {}, known_secrets, known_rules)

    def validate_status(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        known = [row.get("ip", "") for row in _balancer(old)]
        for at, row in enumerate(_balancer(new)):
            path, host = f"status.loadBalancer.ingress[{at}]", row.get("hostname", "")
            if row.get("ip"):
                strict_ip(row["ip"], f"{path}.ip", errors, known)
            if host:
                names_valid(host, f"{path}.hostname", names.dns_subdomain(host), errors)
                if parse_ip(host) is not None:
                    errors.append(invalid(f"{path}.hostname", host, _NOT_AN_IP))
        return errors

    def warnings_create(self, obj: Object) -> list[str]:
        if _annotated(obj) is None or (obj.get("spec") or {}).get("ingressClassName") is not None:
            return []
        return [f"annotation {go_quote(_CLASS_ANNOTATION)} is deprecated, please use 'spec.ingressClassName' instead"]

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        if subresource != "status":
            return []
        rows = enumerate(_balancer(new))
        return [
            text
            for at, row in rows
            if row.get("ip")
            for text in ip_warnings(row["ip"], f"status.loadBalancer.ingress[{at}]")
        ]


def _annotated(obj: Object) -> str | None:
    found: str | None = ((obj.get("metadata") or {}).get("annotations") or {}).get(_CLASS_ANNOTATION)
    return found


def _balancer(obj: Object) -> list[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []


def _bad_rule(rule: Object) -> bool:
    errors: Errors = []
    _paths(rule.get("http"), "", errors)
    return bool(errors)


def _ingress(spec: Object, known_secrets: bool = False, known_rules: bool = False) -> Errors:
    """Validates an Ingress. `known_…`: the stored object has secret names or wildcard rules that older versions
    accepted; these remain valid."""
    errors: Errors = []
    rules, default = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and default is None:
        errors.append(invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if default is not None:
        _backend(default, "spec.defaultBackend", errors)
    for at, rule in enumerate(rules):
        _host(rule.get("host", ""), f"spec.rules[{at}].host", errors)
        if not ("*" in rule.get("host", "") and known_rules):
            _paths(rule.get("http"), f"spec.rules[{at}].http", errors)
    for at, row in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(row.get("hosts") or ()):
            grammar = names.wildcard_subdomain if "*" in host else names.dns_subdomain
            names_valid(host, f"spec.tls[{at}].hosts[{number}]", grammar(host), errors)
        secret = row.get("secretName", "")
        if secret and not known_secrets:
            names_valid(secret, f"spec.tls[{at}].secretName", names.dns_subdomain(secret), errors)
    chosen = spec.get("ingressClassName")
    if chosen is not None:
        names_valid(chosen, "spec.ingressClassName", names.dns_subdomain(chosen), errors)
    return errors


def _host(host: str, path: str, errors: Errors) -> None:
    if not host:
        return
    if parse_ip(host) is not None:
        errors.append(invalid(path, host, _NOT_AN_IP))
    grammar = names.wildcard_subdomain if "*" in host else names.dns_subdomain
    names_valid(host, path, grammar(host), errors)


def _paths(http: Object | None, path: str, errors: Errors) -> None:
    if http is None:
        return
    if not http.get("paths"):
        errors.append(required(f"{path}.paths"))
    for at, row in enumerate(http.get("paths") or ()):
        here, kind = f"{path}.paths[{at}]", row.get("pathType")
        if kind is None:
            errors.append(required(f"{here}.pathType", "pathType must be specified"))
            continue
        _path(row.get("path", ""), kind, here, errors)
        _backend(row.get("backend") or {}, f"{here}.backend", errors)


def _path(text: str, kind: str, path: str, errors: Errors) -> None:
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
        return
    anything = kind == "ImplementationSpecific"
    if not text.startswith("/") and (text or not anything):
        errors.append(invalid(f"{path}.path", text, "must be an absolute path"))
    if anything:
        return
    for bad in _BAD_SEQUENCES:
        if bad in text:
            errors.append(invalid(f"{path}.path", text, f"must not contain '{bad}'"))
    for bad in _BAD_ENDINGS:
        if text.endswith(bad):
            errors.append(invalid(f"{path}.path", text, f"cannot end with '{bad}'"))


def _backend(backend: Object, path: str, errors: Errors) -> None:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        errors.append(invalid(path, "", "cannot set both resource and service backends"))
    elif resource is not None:
        _reference(resource, f"{path}.resource", errors)
    elif service is None:
        errors.append(invalid(path, "", "resource or service backend is required"))
    else:
        name, port = service.get("name", ""), service.get("port") or {}
        if not name:
            errors.append(required(f"{path}.service.name"))
        else:
            names_valid(name, f"{path}.service.name", names.dns_label(name), errors)
        _port(port.get("name", ""), port.get("number", 0), path, errors)


def _port(name: str, number: int, path: str, errors: Errors) -> None:
    if name and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif name:
        names_valid(name, f"{path}.service.port.name", names.port_name(name), errors)
    elif number:
        for text in names.port_number(number):
            errors.append(invalid(f"{path}.service.port.number", number, text))
    else:
        errors.append(required(path, "port name or number is required"))


def _reference(reference: Object, path: str, errors: Errors) -> None:
    group = reference.get("apiGroup")
    if group is not None:
        names_valid(group, f"{path}.apiGroup", names.dns_subdomain(group), errors)
    for field in ("kind", "name"):
        text = reference.get(field, "")
        if not text:
            errors.append(required(f"{path}.{field}"))
        else:
            names_valid(text, f"{path}.{field}", names.path_segment(text), errors)


class IngressClassStrategy(Strategy):
    has_status = False
    changes_first = True

    def default(self, obj: Object) -> None:
        parameters = (obj.get("spec") or {}).get("parameters")
        if parameters is not None:
            set_default(parameters, "scope", "Cluster")

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        controller, path = spec.get("controller", ""), "spec.controller"
        if len(controller.encode()) > _LONGEST_CONTROLLER:
            errors.append(too_long(path, _LONGEST_CONTROLLER))
        _domain_path(controller, path, errors)
        if spec.get("parameters") is not None:
            _parameters(spec["parameters"], errors)
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        mine, stored = (obj.get("spec") or {} for obj in (new, old))
        if mine.get("controller", "") == stored.get("controller", ""):
            return []
        return [invalid("spec.controller", mine.get("controller", ""), IMMUTABLE)]


def _domain_path(text: str, path: str, errors: Errors) -> None:
    host, slash, rest = text.partition("/")
    if not text:
        errors.append(required(path))
    elif not (slash and host and rest):
        errors.append(invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        names_valid(host, path, names.dns_subdomain(host), errors)
        if not re.fullmatch(_PATH, rest):
            errors.append(invalid(path, rest, names.regex_complaint("Invalid path", _PATH)))


def _parameters(parameters: Object, errors: Errors) -> None:
    path, namespace, scope = "spec.parameters", parameters.get("namespace"), parameters.get("scope")
    _reference(parameters, path, errors)
    if scope not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", scope, _SCOPES))
    elif scope == "Cluster" and namespace is not None:
        errors.append(forbidden(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None:
        names_valid(namespace, f"{path}.namespace", names.dns_label(namespace), errors)
