"""Strategies of API services and certificates."""

from __future__ import annotations

from typing import Any

from podfit.api.status import invalid, required
from podfit.apiserver.strategy import meta, names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.kinds.workloads import set_default

Object = dict[str, Any]


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
        if not spec.get("version"):
            errors.append(required("spec.version"))
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
        return errors


class CertificateSigningRequestStrategy(Strategy):
    update_checks = status_checks = "wc"
    has_generation = False

    def default(self, obj: Object) -> None:
        set_default(obj.setdefault("spec", {}), "usages", ["digital signature", "key encipherment"])

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
        if not spec.get("request"):
            errors.append(invalid("spec.request", spec.get("request"), "PEM block type must be CERTIFICATE REQUEST"))
        if not spec.get("usages"):
            errors.append(required("spec.usages"))
        signer = spec.get("signerName", "")
        if not signer:
            errors.append(required("spec.signerName"))
        elif signer.count("/") != 1:
            detail = 'must be a fully qualified domain and path of the form "example.com/signer-name"'
            errors.append(invalid("spec.signerName", signer, detail))
        lifetime = spec.get("expirationSeconds")
        if lifetime is not None and lifetime < 600:
            detail = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", lifetime, detail))
        return errors

    def validate_status(self, new: Object, old: Object) -> Errors:
        kinds = [each.get("type") for each in (new.get("status") or {}).get("conditions") or ()]
        if "Approved" in kinds and "Denied" in kinds:
            return [invalid("status.conditions", kinds, "Approved and Denied conditions are mutually exclusive")]
        return []
