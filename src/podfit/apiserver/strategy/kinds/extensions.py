"""Strategies of what extends the server: webhooks, API services, certificates. Not definitions."""

from __future__ import annotations

from typing import Any

from podfit.api.cel import problem
from podfit.api.status import duplicate, invalid, not_supported, required, too_many
from podfit.apiserver.strategy import meta, names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import equal, label_selector, names_valid
from podfit.apiserver.strategy.kinds.workloads import set_default

Object = dict[str, Any]

_MOST_CONDITIONS = 64
VARIABLES = frozenset(("object", "oldObject", "request", "authorizer"))
"""What a match condition may speak of."""
_SIDE_EFFECTS = ("None", "NoneOnDryRun")


class WebhookConfigurationStrategy(Strategy):
    """Mutating and validating configurations."""

    has_status = False

    @property
    def mutating(self) -> bool:
        return self.kind.kind.startswith("Mutating")

    def default(self, obj: Object) -> None:
        for webhook in obj.get("webhooks") or ():
            set_default(webhook, "failurePolicy", "Fail")
            set_default(webhook, "matchPolicy", "Equivalent")
            set_default(webhook, "namespaceSelector", {})
            set_default(webhook, "objectSelector", {})
            set_default(webhook, "timeoutSeconds", 10)
            if self.mutating:
                set_default(webhook, "reinvocationPolicy", "Never")
            for rule in webhook.get("rules") or ():
                set_default(rule, "scope", "*")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                set_default(service, "port", 443)

    def spec_changed(self, new: Object, old: Object) -> bool:
        return not equal(new.get("webhooks"), old.get("webhooks"))

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        seen: set[str] = set()
        for at, webhook in enumerate(obj.get("webhooks") or ()):
            path, name = f"webhooks[{at}]", webhook.get("name", "")
            self._webhook(webhook, path, errors)
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        return errors

    def _webhook(self, webhook: Object, path: str, errors: Errors) -> None:
        name = webhook.get("name", "")
        if not name:
            errors.append(required(f"{path}.name"))
        else:
            complaints = names.dns_subdomain(name)
            names_valid(name, f"{path}.name", complaints, errors)
            if not complaints and name.count(".") < 2:
                detail = "should be a domain with at least three segments separated by dots"
                errors.append(invalid(f"{path}.name", name, detail))
        for at, rule in enumerate(webhook.get("rules") or ()):
            for field in ("operations", "apiGroups", "apiVersions", "resources"):
                if not rule.get(field):
                    errors.append(required(f"{path}.rules[{at}].{field}"))
        self._words(webhook, path, errors)
        if not webhook.get("admissionReviewVersions"):
            detail = "must specify one of v1, v1beta1"
            errors.append(required(f"{path}.admissionReviewVersions", detail))
        config = webhook.get("clientConfig") or {}
        if (config.get("url") is None) == (config.get("service") is None):
            detail = "exactly one of url or service is required"
            errors.append(required(f"{path}.clientConfig", detail))
        elif config.get("url") is not None and not config["url"].startswith("https://"):
            scheme = config["url"].partition(":")[0] if ":" in config["url"] else ""
            detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
            errors.append(invalid(f"{path}.clientConfig.url", scheme, detail))
        for field in ("namespaceSelector", "objectSelector"):
            label_selector(webhook.get(field), f"{path}.{field}", errors)
        _match_conditions(webhook.get("matchConditions") or [], f"{path}.matchConditions", errors)

    def _words(self, webhook: Object, path: str, errors: Errors) -> None:
        checks = [("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))]
        if self.mutating:
            checks.append(("reinvocationPolicy", ("IfNeeded", "Never")))
        for field, allowed in checks:
            if webhook.get(field) is not None and webhook[field] not in allowed:
                errors.append(not_supported(f"{path}.{field}", webhook[field], allowed))
        effects = webhook.get("sideEffects")
        if effects is None:
            detail = "must specify one of None, NoneOnDryRun"
            errors.append(required(f"{path}.sideEffects", detail))
        elif effects not in _SIDE_EFFECTS:
            errors.append(not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS))
        timeout = webhook.get("timeoutSeconds")
        if timeout is not None and not 1 <= timeout <= 30:
            detail = "the timeout value must be between 1 and 30 seconds"
            errors.append(invalid(f"{path}.timeoutSeconds", timeout, detail))


def _match_conditions(conditions: list[Object], path: str, errors: Errors) -> None:
    if len(conditions) > _MOST_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MOST_CONDITIONS))
    seen: set[str] = set()
    for at, condition in enumerate(conditions):
        where, name = f"{path}[{at}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            errors.append(required(f"{where}.expression"))
        elif told := problem(expression, VARIABLES):
            errors.append(invalid(f"{where}.expression", condition["expression"], told))
        if not name:
            errors.append(required(f"{where}.name"))
        else:
            names_valid(name, f"{where}.name", names.qualified_name(name), errors)
            if name in seen:
                errors.append(duplicate(f"{where}.name", name))
            seen.add(name)


class APIServiceStrategy(Strategy):
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
