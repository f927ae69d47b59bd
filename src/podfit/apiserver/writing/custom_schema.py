"""Defaults and validation from the schema of a custom resource, in addition to its kind's strategy."""

from __future__ import annotations

from podfit.api.cel.cost.budget import NEVER_YIELD, YieldPolicy
from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind
from podfit.api.schema import type_of
from podfit.api.schema.custom.structural import CustomSchema
from podfit.api.schema.decoding.scalars import Unreadable
from podfit.api.status import FieldError, internal_error
from podfit.api.text import names
from podfit.apiserver.strategy import meta, strategy_for


def _schema(kind: Kind) -> CustomSchema | None:
    struct = type_of(kind) if kind.custom else None
    found = struct.cache.get("custom") if struct is not None else None
    return found if isinstance(found, CustomSchema) else None


def default(kind: Kind, obj: Object) -> None:
    """Sets defaults, in place."""
    strategy_for(kind).default(obj)
    if kind.custom and (schema := _schema(kind)) is not None:
        schema.default(obj)


def pruned(kind: Kind, obj: Object) -> Object:
    """A custom resource without fields that its schema does not define."""
    schema = _schema(kind) if kind.custom else None
    try:
        return obj if schema is None else schema.prune(obj)[0]
    except Unreadable as error:
        raise internal_error(str(error)) from error


def errors(
    kind: Kind,
    obj: Object,
    old: Object | None = None,
    subresource: str = "",
    yielding: YieldPolicy = NEVER_YIELD,
    warnings: list[str] | None = None,
) -> list[FieldError]:
    """Schema violations of a custom resource. Empty for built-in kinds. Rules that an unchanged value violates are
    added to `warnings`."""
    schema = _schema(kind) if kind.custom else None
    return [] if schema is None else schema.validate(obj, old, subresource, yielding, _metadata_errors, warnings)


def _metadata_errors(metadata: Object) -> list[FieldError]:
    return meta.validate_object(metadata, bool(metadata.get("namespace")), names.path_segment, False)
