"""Strategies of API services and certificates."""

from __future__ import annotations

import base64

from podfit.api.objects import Object
from podfit.api.status import duplicate, field_forbidden, invalid, not_supported, required
from podfit.api.text import names
from podfit.apiserver.auth.certs.certificates import EXTENDED_USAGES, USAGES, load_request
from podfit.apiserver.strategy import meta
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import names_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default

_LEGACY = "kubernetes.io/legacy-unknown"
_TRUE_ONLY = ("Approved", "Denied", "Failed")
"""Conditions that are present or not, and are never removed."""


class APIServiceStrategy(Strategy):
    strict_finalizers = False
    unconditional_update = False
    has_generation = False

    def default(self, obj: Object) -> None:
        service = obj.setdefault("spec", {}).get("service")
        if service is not None:
            set_default(service, "port", 443)

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        name = (obj.get("metadata") or {}).get("name", "")
        wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
        if name != wanted:
            errors.append(invalid("metadata.name", name, 'must be `spec.version+"."+spec.group`: "' + wanted + '"'))
        group, version = spec.get("group", ""), spec.get("version", "")
        if not group and version != "v1":
            detail = "only v1 may have an empty group and it better be legacy kube"
            errors.append(required("spec.group", detail))
        if group:
            names_valid(group, "spec.group", names.dns_subdomain(group), errors)
        names_valid(version, "spec.version", names.dns_1035(version), errors)
        for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            if not 0 < (spec.get(field) or 0) <= most:
                detail = f"must be positive and less than {most}"
                errors.append(invalid(f"spec.{field}", spec.get(field, 0), detail))
        if spec.get("service") is None and spec.get("caBundle"):
            detail = "local APIServices may not have a caBundle"
            errors.append(invalid("spec.caBundle", f"{len(spec['caBundle'])} bytes", detail))
        if spec.get("service") is None and spec.get("insecureSkipTLSVerify"):
            detail = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid("spec.insecureSkipTLSVerify", True, detail))
        if (service := spec.get("service")) is not None:
            _service(spec, service, errors)
        return errors


def _service(spec: Object, service: Object, errors: Errors) -> None:
    for field in ("namespace", "name"):
        if not service.get(field):
            errors.append(required(f"spec.service.{field}"))
    port = service.get("port", 0)
    if not 0 < port < 65536:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid("spec.service.port", port, detail))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        detail = "may not be true if caBundle is present"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, detail))


class CertificateSigningRequestStrategy(Strategy):
    update_checks = status_checks = "wc"
    has_generation = False

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        meta.keep(new, old, "spec")
        if subresource == "":
            meta.keep(new, old, "status")
        meta.carry_over(new, old)

    def validate_name(self, name: str, prefix: bool = False) -> list[str]:
        return names.path_segment(name, prefix) if len(name) <= 253 else [names.max_length(253)]

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        try:
            load_request(base64.b64decode(spec.get("request") or "", validate=True))
        except ValueError as error:
            errors.append(invalid("spec.request", spec.get("request"), str(error)))
        errors += _usage_errors(spec.get("usages") or [])
        signer = spec.get("signerName", "")
        if signer == _LEGACY:
            detail = "the legacy signerName is not allowed via this API version"
            errors.append(invalid("spec.signerName", signer, detail))
        elif not signer:
            errors.append(required("spec.signerName"))
        elif signer.count("/") != 1:
            detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            errors.append(invalid("spec.signerName", signer, detail))
        lifetime = spec.get("expirationSeconds")
        if lifetime is not None and lifetime < 600:
            detail = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", lifetime, detail))
        return errors

    def validate_change(self, new: Object, old: Object) -> Errors:
        # The approval is written through an endpoint of its own.
        return self.validate_status(new, old)

    def validate_status(self, new: Object, old: Object) -> Errors:
        was, now = old.get("status") or {}, new.get("status") or {}
        before = [each.get("type") for each in was.get("conditions") or ()]
        kinds = [each.get("type") for each in now.get("conditions") or ()]
        errors: Errors = []
        if "Approved" in kinds and "Denied" in kinds:
            errors.append(invalid("status.conditions", kinds, "Approved and Denied conditions are mutually exclusive"))
        for at, condition in enumerate(now.get("conditions") or ()):
            if condition.get("type") in _TRUE_ONLY and condition.get("status") != "True":
                where = f"status.conditions[{at}].status"
                status = condition.get("status") or ""
                errors.append(not_supported(where, status, ["True"]) if status else required(where))
        for kind in _TRUE_ONLY:
            if kinds.count(kind) < before.count(kind):
                detail = f'updates may not remove a condition of type "{kind}"'
                errors.append(field_forbidden("status.conditions", detail))
        if was.get("certificate") and now.get("certificate") != was["certificate"]:
            detail = "updates may not modify existing certificate content"
            errors.append(field_forbidden("status.certificate", detail))
        return errors


def _usage_errors(usages: list[str]) -> Errors:
    if not usages:
        return [required("spec.usages")]
    known = sorted({**USAGES, **EXTENDED_USAGES})
    errors: Errors = [
        not_supported(f"spec.usages[{at}]", usage, known) for at, usage in enumerate(usages) if usage not in known
    ]
    repeated = [at for at, usage in enumerate(usages) if usage in usages[:at]]
    return errors + [duplicate(f"spec.usages[{at}]", usages[at]) for at in repeated]
