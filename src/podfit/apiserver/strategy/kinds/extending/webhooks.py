"""The strategy of webhook configurations, and the validation of webhook addresses, which other kinds use as well."""

from __future__ import annotations

from urllib.parse import urlsplit

from podfit.api.objects import Object
from podfit.api.status import duplicate, invalid, not_supported, required, too_many
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import equal, expression_error, label_selector, names_valid
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default

_AGAIN = ("IfNeeded", "Never")
_MOST_CONDITIONS = 64
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_REVIEWS = ("v1", "v1beta1")
_REVIEWS_SHOWN = ", ".join(_REVIEWS)
_FORM = "; desired format: https://host[/path]"


class WebhookConfigurationStrategy(Strategy):
    """The strategy of mutating and validating configurations."""

    update_checks = "w"
    strict_finalizers = False
    unconditional_update = False
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
            rule_valid(rule, f"{path}.rules[{at}]", errors)
        self._words(webhook, path, errors)
        for field in ("namespaceSelector", "objectSelector"):
            label_selector(webhook.get(field), f"{path}.{field}", errors)
        again = webhook.get("reinvocationPolicy")
        if self.mutating and again is not None and again not in _AGAIN:
            errors.append(not_supported(f"{path}.reinvocationPolicy", again, _AGAIN))
        hook_address(webhook.get("clientConfig") or {}, f"{path}.clientConfig", errors)
        _match_conditions(webhook.get("matchConditions") or [], f"{path}.matchConditions", errors)
        versions, missing = webhook.get("admissionReviewVersions") or [], f"must specify one of {_REVIEWS_SHOWN}"
        review_versions(versions, f"{path}.admissionReviewVersions", errors, missing)

    def _words(self, webhook: Object, path: str, errors: Errors) -> None:
        for field, allowed in (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact"))):
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
    if not conditions:
        return
    from podfit.apiserver.admission.webhooks.conditions import condition_problem

    seen: set[str] = set()
    for at, condition in enumerate(conditions):
        where, name = f"{path}[{at}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            errors.append(required(f"{where}.expression"))
        elif found := condition_problem(expression):
            errors.append(expression_error(f"{where}.expression", expression, found))
        if not name:
            errors.append(required(f"{where}.name"))
        else:
            names_valid(name, f"{where}.name", names.qualified_name(name), errors)
            if name in seen:
                errors.append(duplicate(f"{where}.name", name))
            seen.add(name)


# --- rules ---------------------------------------------------------------------------------------------------------


def rule_valid(rule: Object, path: str, errors: Errors) -> None:
    operations, groups, versions, resources = (
        rule.get(field) or [] for field in ("operations", "apiGroups", "apiVersions", "resources")
    )
    words = (("operations", operations, "operations"), ("apiGroups", groups, "API groups"))
    for field, given, what in (*words, ("apiVersions", versions, "API versions")):
        if not given:
            errors.append(required(f"{path}.{field}"))
        elif len(given) > 1 and "*" in given:
            detail = f"if '*' is present, must not specify other {what}"
            errors.append(invalid(f"{path}.{field}", given, detail))
    for at, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(not_supported(f"{path}.operations[{at}]", operation, _OPERATIONS))
    errors += [required(f"{path}.apiVersions[{at}]") for at, version in enumerate(versions) if not version]
    _resources(resources, f"{path}.resources", errors)
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", rule["scope"], _SCOPES))


def _resources(resources: list[str], path: str, errors: Errors) -> None:
    if not resources:
        errors.append(required(path))
    all_of: set[str] = set()
    of_all: set[str] = set()
    for at, entry in enumerate(resources):
        if not entry:
            errors.append(required(f"{path}[{at}]"))
        resource, slash, part = entry.partition("/")
        if not slash:
            continue
        if resource in all_of:
            why = f"if '{resource}/*' is present, must not specify {entry}"
            errors.append(invalid(f"{path}[{at}]", entry, why))
        if part in of_all:
            errors.append(invalid(f"{path}[{at}]", entry, f"if '*/{part}' is present, must not specify {entry}"))
        if part == "*":
            all_of.add(resource)
        if resource == "*":
            of_all.add(part)
    if "*/*" in resources and len(resources) > 1:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    whole = [entry for entry in resources if entry and "/" not in entry]
    if "*" in resources and len(whole) > 1:
        why = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, why))


def review_versions(versions: list[str], path: str, errors: Errors, missing: str = "") -> None:
    """The versions of reviews that a hook accepts; `missing` is the error if it names none."""
    if not versions:
        errors.append(required(path, missing))
        return
    for at, version in enumerate(versions):
        if version in versions[:at]:
            errors.append(invalid(f"{path}[{at}]", version, "duplicate version"))
        else:
            names_valid(version, f"{path}[{at}]", names.dns_1035(version), errors)
    if not set(versions) & set(_REVIEWS):
        errors.append(invalid(path, versions, f"must include at least one of {_REVIEWS_SHOWN}"))


# --- addresses -----------------------------------------------------------------------------------------------------


def hook_address(config: Object, path: str, errors: Errors) -> None:
    """Validates that a hook has either a URL or a service."""
    if (config.get("url") is None) == (config.get("service") is None):
        errors.append(required(path, "exactly one of url or service is required"))
    elif config.get("url") is not None:
        _url(config["url"], f"{path}.url", errors)
    else:
        _service(config["service"], f"{path}.service", errors)


def _url(text: str, path: str, errors: Errors) -> None:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        errors.append(required(path, f"url must be a valid URL: {error}{_FORM}"))
        return
    user, at, host = parts.netloc.rpartition("@")
    if parts.scheme != "https":
        errors.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not host:
        errors.append(invalid(path, host, f"host must be specified{_FORM}"))
    if at:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        errors.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        errors.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))


def _service(service: Object, path: str, errors: Errors) -> None:
    for field in ("name", "namespace"):
        if not service.get(field):
            errors.append(required(f"{path}.{field}", f"service {field} is required"))
    port = service.get("port")
    if port is not None and not 0 < port < 65536:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{path}.port", port, detail))
    text = service.get("path")
    if text in (None, "", "/"):
        return
    if not text.startswith("/"):
        errors.append(invalid(f"{path}.path", text, "must start with a '/'"))
    # Kubernetes skips the first character, whatever it is.
    for at, step in enumerate(text[1:].removesuffix("/").split("/")):
        if not step:
            errors.append(invalid(f"{path}.path", text, f"segment[{at}] may not be empty"))
        for complaint in names.dns_subdomain(step) if step else ():
            errors.append(invalid(f"{path}.path", text, f"segment[{at}]: {complaint}"))
