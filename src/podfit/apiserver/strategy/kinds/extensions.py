"""Strategies of what extends the server: custom resource definitions, webhooks, API services, certificates."""

from __future__ import annotations

from typing import Any

from podfit.api.schema.structure import structural_problems
from podfit.api.status import duplicate, invalid, not_supported, required
from podfit.apiserver.strategy import meta, names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, chosen, equal, label_selector, names_valid
from podfit.apiserver.strategy.kinds.workloads import set_default

Object = dict[str, Any]

_SCOPES = ("Cluster", "Namespaced")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")


class CustomResourceDefinitionStrategy(Strategy):
    strict_finalizers = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        listed = spec.setdefault("names", {})
        if not listed.get("singular"):
            listed["singular"] = listed.get("kind", "").lower()
        if not listed.get("listKind") and listed.get("kind"):
            listed["listKind"] = listed["kind"] + "List"
        conversion = spec.get("conversion")
        if conversion is None:
            conversion = spec["conversion"] = {}
        if not conversion.get("strategy"):
            conversion["strategy"] = "None"
        service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None:
            set_default(service, "port", 443)

    def reset_status(self, obj: Object) -> None:
        versions = (obj.get("spec") or {}).get("versions") or ()
        stored = [version.get("name") for version in versions if version.get("storage")]
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}

    def keep_all_but_status(self, new: Object, old: Object) -> None:
        meta.keep(new, old, "spec")
        meta.reset_for_status(new, old)

    def validate_create(self, obj: Object) -> Errors:
        errors = super().validate_create(obj)
        spec = obj.get("spec") or {}
        wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
        name = (obj.get("metadata") or {}).get("name", "")
        if name != wanted:
            detail = 'must be spec.names.plural+"."+spec.group'
            errors.insert(0, invalid("metadata.name", name, detail))
        return errors + _structural(obj)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        group = spec.get("group", "")
        if not group:
            errors.append(required("spec.group"))
        else:
            names_valid(group, "spec.group", names.dns_subdomain(group), errors)
            if "." not in group:
                errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
        chosen(spec.get("scope"), "spec.scope", _SCOPES, errors)
        self._versions(spec.get("versions") or [], errors)
        self._names(spec.get("names") or {}, errors)
        return errors

    def _versions(self, versions: list[Object], errors: Errors) -> None:
        seen: set[str] = set()
        if sum(bool(version.get("storage")) for version in versions) != 1:
            detail = "must have exactly one version marked as storage version"
            errors.append(invalid("spec.versions", [_version(each) for each in versions], detail))
        for at, version in enumerate(versions):
            path, name = f"spec.versions[{at}]", version.get("name", "")
            if name in seen:
                errors.append(invalid("spec.versions", name, "must contain unique version names"))
            seen.add(name)
            names_valid(name, f"{path}.name", names.dns_1035(name), errors)
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                errors.append(required(f"{path}.schema.openAPIV3Schema", "schemas are required"))

    def _names(self, listed: Object, errors: Errors) -> None:
        path = "spec.names"
        for field in ("plural", "singular", "kind", "listKind"):
            value = listed.get(field, "")
            if not value and field in ("plural", "kind", "listKind"):
                errors.append(required(f"{path}.{field}"))
            elif value:
                text = value.lower() if field in ("kind", "listKind") else value
                names_valid(value, f"{path}.{field}", names.dns_1035(text), errors)
        for at, short in enumerate(listed.get("shortNames") or ()):
            names_valid(short, f"{path}.shortNames[{at}]", names.dns_1035(short), errors)
        if listed.get("kind") and listed.get("kind") == listed.get("listKind"):
            errors.append(invalid(f"{path}.listKind", listed["listKind"], "kind and listKind may not be the same"))

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        spec, stored = new.get("spec") or {}, old.get("spec") or {}
        fixed = (("group", spec, stored), ("scope", spec, stored))
        for field, mine, before in fixed:
            if mine.get(field) != before.get(field):
                errors.append(invalid(f"spec.{field}", mine.get(field), IMMUTABLE))
        for field in ("plural", "kind"):
            mine, before = ((each.get("names") or {}).get(field) for each in (spec, stored))
            if mine != before:
                errors.append(invalid(f"spec.names.{field}", mine, IMMUTABLE))
        # One that was let in without is not stuck for it.
        return errors if _structural(old) else errors + _structural(new)


def _structural(definition: Object) -> Errors:
    """A schema that all versions share is spoken of as the definition's own."""
    versions = (definition.get("spec") or {}).get("versions") or []
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    if schemas and schemas[0] is not None and all(equal(schema, schemas[0]) for schema in schemas):
        return structural_problems(schemas[0])
    errors: Errors = []
    for at, schema in enumerate(schemas):
        if schema is not None:
            errors += structural_problems(schema, f"spec.versions[{at}].schema.openAPIV3Schema")
    return errors


def _version(version: Object) -> Object:
    return {"Name": version.get("name"), "Served": bool(version.get("served")), "Storage": bool(version.get("storage"))}


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
