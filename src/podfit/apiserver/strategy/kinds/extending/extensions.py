"""The strategy of API services."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.status import invalid, required
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import names_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default


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
