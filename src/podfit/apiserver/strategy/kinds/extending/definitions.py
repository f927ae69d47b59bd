"""The strategy of CustomResourceDefinitions: names, versions, storage, conversion and display."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from podfit.api.objects import Object
from podfit.api.schema.celrules.rule_places import rule_text
from podfit.api.schema.custom.formats import unknown_formats
from podfit.api.schema.custom.openapi_checks import definition_problems, schema_at
from podfit.api.status import duplicate, field_forbidden, go_quote, invalid, required, too_many
from podfit.api.text import names
from podfit.apiserver.strategy.base import Errors, Strategy
from podfit.apiserver.strategy.checks import IMMUTABLE, chosen, equal, names_valid
from podfit.apiserver.strategy.kinds.extending.webhooks import hook_address, review_versions
from podfit.apiserver.strategy.kinds.replicas.workloads import set_default

_MOST_SELECTABLE = 8
_MUCH_TEXT = 1000
"""The total length of rules above which checking takes more than a few milliseconds."""
_SCOPES = ("Cluster", "Namespaced")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_APPROVED = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


class CustomResourceDefinitionStrategy(Strategy):
    update_checks = "c"
    strict_finalizers = False
    unconditional_update = False

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        listed = spec.setdefault("names", {})
        if not listed.get("singular"):
            listed["singular"] = listed.get("kind", "").lower()
        if not listed.get("listKind") and listed.get("kind"):
            listed["listKind"] = listed["kind"] + "List"
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}
        conversion = spec["conversion"]
        webhook = conversion.get("webhook")
        if webhook is not None and webhook.get("clientConfig") is None and not webhook.get("conversionReviewVersions"):
            # Kubernetes drops the field when it converts to its internal form.
            del conversion["webhook"]
        service = ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None:
            set_default(service, "port", 443)
        status = obj.get("status")
        if status and not status.get("storedVersions"):
            status["storedVersions"] = _storage_version(obj)

    def reset_status(self, obj: Object) -> None:
        stored = _storage_version(obj)
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored}

    def prepare_update(self, new: Object, old: Object, subresource: str = "") -> None:
        super().prepare_update(new, old, subresource)
        if subresource == "status":
            return
        versions = (new.get("spec") or {}).get("versions") or ()
        status = dict(new.get("status") or {})
        kept = status.get("storedVersions") or []
        more = [row.get("name") for row in versions if row.get("storage") and row.get("name") not in kept]
        if more:
            new["status"] = {**status, "storedVersions": [*kept, *more]}

    def warnings_create(self, obj: Object) -> list[str]:
        return [f"unrecognized format {go_quote(text)}" for text in _unknown_formats(obj)]

    def warnings_update(self, new: Object, old: Object, subresource: str = "") -> list[str]:
        if subresource:
            return []
        before = set(_unknown_formats(old))
        return [f"unrecognized format {go_quote(text)}" for text in _unknown_formats(new) if text not in before]

    def heavy(self, obj: Object) -> bool:
        versions = (obj.get("spec") or {}).get("versions") or ()
        return sum(rule_text(_schema_of(row)) for row in versions) > _MUCH_TEXT

    def validate_create(self, obj: Object) -> Errors:
        errors = super().validate_create(obj)
        spec = obj.get("spec") or {}
        wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
        name = (obj.get("metadata") or {}).get("name", "")
        if name and name != wanted:
            detail = 'must be spec.names.plural+"."+spec.group'
            errors.insert(0, invalid("metadata.name", name, detail))
        return errors + _schemas(obj) + _approval(obj) + _keeps_all(obj)

    def validate(self, obj: Object) -> Errors:
        errors: Errors = []
        spec = obj.get("spec") or {}
        group = spec.get("group", "")
        if not group:
            errors.append(required("spec.group"))
        else:
            complaints = names.dns_subdomain(group)
            names_valid(group, "spec.group", complaints, errors)
            if not complaints and "." not in group:
                errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
        chosen(spec.get("scope"), "spec.scope", _SCOPES, errors)
        self._versions(spec.get("versions"), errors)
        self._names(spec.get("names") or {}, errors)
        _conversion(spec.get("conversion") or {}, errors)
        _stored_versions(obj, errors)
        return errors

    def _versions(self, given: list[Object] | None, errors: Errors) -> None:
        versions = given or []
        shared = _shared(versions)
        for at, version in enumerate(versions):
            path, name = f"spec.versions[{at}]", version.get("name", "")
            names_valid(name, f"{path}.name", names.dns_1035(name), errors)
            if (version.get("schema") or {}).get("openAPIV3Schema") is None:
                errors.append(required(f"{path}.schema.openAPIV3Schema"))
            _deprecation(version, path, errors)
            _check_columns(
                {field: value for field, value in version.items() if field not in shared}, version, path, errors
            )
        listed = [_version(each, shared) for each in versions]
        if len({version.get("name", "") for version in versions}) < len(versions):
            errors.append(invalid("spec.versions", listed, "must contain unique version names"))
        if sum(bool(version.get("storage")) for version in versions) != 1:
            shown = listed if versions else given
            errors.append(invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
        if versions:
            first = versions[0].get("name", "")
            names_valid(first, "spec.version", names.dns_1035(first) if first else [], errors)
            _check_columns({field: versions[0].get(field) for field in shared}, versions[0], "spec", errors)

    def _names(self, listed: Object, errors: Errors) -> None:
        path = "spec.names"
        for field in ("plural", "singular", "kind", "listKind"):
            if not listed.get(field):
                errors.append(required(f"{path}.{field}"))
        for field in ("plural", "singular"):
            if listed.get(field):
                names_valid(listed[field], f"{path}.{field}", names.dns_1035(listed[field]), errors)
        for field in ("kind", "listKind"):
            for problem in names.dns_1035(listed[field].lower()) if listed.get(field) else ():
                detail = f"may have mixed case, but should otherwise match: {problem}"
                errors.append(invalid(f"{path}.{field}", listed[field], detail))
        for at, short in enumerate(listed.get("shortNames") or ()):
            names_valid(short, f"{path}.shortNames[{at}]", names.dns_1035(short), errors)
        if listed.get("kind") and listed.get("kind") == listed.get("listKind"):
            errors.append(invalid(f"{path}.listKind", listed["listKind"], "kind and listKind may not be the same"))
        for at, category in enumerate(listed.get("categories") or ()):
            names_valid(category, f"{path}.categories[{at}]", names.dns_1035(category), errors)

    def validate_change(self, new: Object, old: Object) -> Errors:
        errors: Errors = []
        spec, stored = new.get("spec") or {}, old.get("spec") or {}
        mine, before = spec.get("names") or {}, stored.get("names") or {}
        conditions = (old.get("status") or {}).get("conditions") or ()
        settled = any(row.get("type") == "Established" and row.get("status") == "True" for row in conditions)
        fixed = [("scope", spec, stored), ("names.kind", mine, before)] if settled else []
        for path, new_part, old_part in (*fixed, ("group", spec, stored), ("names.plural", mine, before)):
            field = path.rpartition(".")[2]
            if new_part.get(field) != old_part.get(field):
                errors.append(invalid(f"spec.{path}", new_part.get(field), IMMUTABLE))
        if _approval_state(new) != _approval_state(old):
            errors += _approval(new)
        if not _schemas(old, old):
            # A version that was accepted without a schema remains valid.
            errors += _schemas(new, old)
        return errors if stored.get("preserveUnknownFields") else errors + _keeps_all(new)


_SHARED = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")


def _shared(versions: list[Object]) -> frozenset[str]:
    """The part that is equal in all versions, which Kubernetes treats as part of the definition itself."""
    alike = (field for field in _SHARED if all(equal(row.get(field), versions[0].get(field)) for row in versions))
    return frozenset(alike)


def _schema_of(version: Object) -> Object | None:
    found: Object | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def _schemas(definition: Object, old: Object | None = None) -> Errors:
    versions = (definition.get("spec") or {}).get("versions") or []
    before = {row.get("name"): _schema_of(row) for row in ((old or {}).get("spec") or {}).get("versions") or ()}
    schemas = [(schema := _schema_of(row), schema == before.get(row.get("name"))) for row in versions]
    if schemas and schemas[0][0] is not None and "schema" in _shared(versions):
        return definition_problems(schemas[0][0], "spec.validation.openAPIV3Schema", schemas[0][1])
    errors: Errors = []
    for at, (schema, stored) in enumerate(schemas):
        if schema is not None:
            errors += definition_problems(schema, f"spec.versions[{at}].schema.openAPIV3Schema", stored)
    return errors


def _keeps_all(definition: Object) -> Errors:
    if not (definition.get("spec") or {}).get("preserveUnknownFields"):
        return []
    detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return [invalid("spec.preserveUnknownFields", True, detail)]


def _version(version: Object, shared: frozenset[str]) -> Object:
    """A version with the names of the Go struct, without its schema: as shown in messages."""
    shown = {field: version.get(field) for field in _SHARED if field not in shared}
    return {
        "Name": version.get("name"),
        "Served": bool(version.get("served")),
        "Storage": bool(version.get("storage")),
        "Deprecated": bool(version.get("deprecated")),
        "DeprecationWarning": version.get("deprecationWarning"),
        **{field[0].upper() + field[1:]: shown.get(field) for field in _SHARED},
    }


def _check_columns(fields: Object, version: Object, path: str, errors: Errors) -> None:
    """Validates printer columns, selectable fields and scale paths."""
    _scale(fields.get("subresources") or {}, f"{path}.subresources", errors)
    for place, column in enumerate(fields.get("additionalPrinterColumns") or ()):
        _column(column, f"{path}.additionalPrinterColumns[{place}]", errors)
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    _selectable(fields.get("selectableFields") or (), schema, f"{path}.selectableFields", errors)


def _selectable(fields: Sequence[Object], schema: Object, path: str, errors: Errors) -> None:
    seen: set[str] = set()
    for at, field in enumerate(fields):
        where, leads = f"{path}[{at}].jsonPath", field.get("jsonPath") or ""
        if not leads:
            errors.append(required(where))
            continue
        if "[" in leads:
            continue
        place = schema_at(schema, leads) if leads.startswith(".") else None
        if place is None:
            errors.append(invalid(where, leads, f"is an invalid path: {_no_path(leads)}"))
            continue
        if leads.startswith(".metadata."):
            errors.append(invalid(where, leads, "must not point to fields in metadata"))
        if place.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(where, leads, detail))
        if leads in seen:
            errors.append(duplicate(where, leads))
        seen.add(leads)
    if len(seen) > _MOST_SELECTABLE:
        errors.append(too_many(path, len(seen), _MOST_SELECTABLE))


def _no_path(leads: str) -> str:
    if leads.startswith("."):
        return "does not refer to a valid field"
    return f"expected [ or . but got: {leads.partition('.')[0]}"


# --- versions ------------------------------------------------------------------------------------------------------


def _deprecation(version: Object, path: str, errors: Errors) -> None:
    text = version.get("deprecationWarning")
    if text is None:
        return
    where = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        errors.append(invalid(where, text, "can only be set for deprecated versions"))
        return
    if len(text) > 256:
        errors.append(invalid(where, text, "must be <= 256 characters long"))
    if not text:
        errors.append(invalid(where, text, "must not be an empty string"))
    bad = next((at for at, letter in enumerate(text) if not letter.isprintable()), None)
    if bad is not None:
        detail = f"must only contain printable UTF-8 characters; non-printable character found at index {bad}"
        errors.append(invalid(where, text, detail))


def _scale(subresources: Object, path: str, errors: Errors) -> None:
    scale = subresources.get("scale")
    if scale is None:
        return
    for field, roots, needed in (
        ("specReplicasPath", (".spec.",), True),
        ("statusReplicasPath", (".status.",), True),
        ("labelSelectorPath", (".spec.", ".status."), False),
    ):
        value, where = scale.get(field) or "", f"{path}.scale.{field}"
        if not value:
            if needed:
                errors.append(required(where))
        elif not value.startswith("."):
            errors.append(invalid(where, value, "must be a simple json path starting with ."))
        elif not value.startswith(roots):
            under = ("either " if len(roots) > 1 else "") + " or ".join(root.rstrip(".") for root in roots)
            errors.append(invalid(where, value, f"should be a json path under {under}"))


def _column(column: Object, path: str, errors: Errors) -> None:
    if not column.get("name"):
        errors.append(required(f"{path}.name"))
    kinds = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("type"):
        errors.append(required(f"{path}.type", kinds))
    elif column["type"] not in _COLUMN_TYPES:
        errors.append(invalid(f"{path}.type", column["type"], kinds))
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
        errors.append(invalid(f"{path}.format", column["format"], detail))
    where = column.get("jsonPath")
    if not where:
        errors.append(required(f"{path}.JSONPath"))
    elif not where.startswith("."):
        errors.append(invalid(f"{path}.JSONPath", where, "must be a simple json path starting with ."))


def _storage_version(obj: Object) -> list[str]:
    versions = (obj.get("spec") or {}).get("versions") or ()
    return [version.get("name", "") for version in versions if version.get("storage")][:1]


def _unknown_formats(obj: Object) -> list[str]:
    versions = (obj.get("spec") or {}).get("versions") or ()
    return list(dict.fromkeys(text for row in versions for text in unknown_formats(_schema_of(row))))


def _stored_versions(obj: Object, errors: Errors) -> None:
    path, stored = "status.storedVersions", (obj.get("status") or {}).get("storedVersions") or []
    if not stored:
        errors.append(invalid(path, stored or None, "must have at least one stored version"))
        return
    missing = {name: at for at, name in enumerate(stored)}
    for row in (obj.get("spec") or {}).get("versions") or ():
        name = row.get("name")
        if row.get("storage") and name not in missing:
            errors.append(invalid(path, stored, f"must have the storage version {name}"))
        missing.pop(name, None)  # The second version of a duplicate name is not stored.
    for name, at in missing.items():
        detail = (
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
            f"removes {name} from status.storedVersions"
        )
        errors.append(invalid(f"{path}[{at}]", name, detail))


def _conversion(conversion: Object, errors: Errors) -> None:
    path, strategy = "spec.conversion", conversion.get("strategy")
    webhook = conversion.get("webhook")
    chosen(strategy, f"{path}.strategy", ("None", "Webhook"), errors)
    if strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        if (webhook or {}).get("clientConfig") is not None:
            errors.append(field_forbidden(f"{path}.webhookClientConfig", detail))
        if (webhook or {}).get("conversionReviewVersions"):
            errors.append(field_forbidden(f"{path}.conversionReviewVersions", detail))
        return
    config = (webhook or {}).get("clientConfig")
    if config is None:
        errors.append(required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook"))
    else:
        hook_address(config, f"{path}.webhookClientConfig", errors)
    review_versions((webhook or {}).get("conversionReviewVersions") or [], f"{path}.conversionReviewVersions", errors)


# --- groups that belong to the community ---------------------------------------------------------------------------


def _approval_state(obj: Object) -> str:
    """The state of the API approval: ok, missing or invalid. Only Kubernetes' own groups need an approval."""
    group = (obj.get("spec") or {}).get("group", "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return "ok"
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(_APPROVED, "")
    if not text:
        return "missing"
    parts = urlsplit(text)
    return "ok" if text.startswith("unapproved") or (parts.scheme and parts.netloc) else "invalid"


def _approval(obj: Object) -> Errors:
    state, path = _approval_state(obj), f"metadata.annotations[{_APPROVED}]"
    need = f"protected groups must have approval annotation {go_quote(_APPROVED)}"
    if state == "missing":
        return [required(path, f"{need}, {_SEE}")]
    if state == "invalid":
        detail = f'{need} with either a URL or a reason starting with "unapproved", {_SEE}'
        return [invalid(path, obj["metadata"]["annotations"][_APPROVED], detail)]
    return []
