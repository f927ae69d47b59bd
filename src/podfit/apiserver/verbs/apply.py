"""Handles server-side apply: PATCH with the fields that one manager wants to own.

A missing object is created, but only through the main endpoint.
"""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.patches.apply import apply_patch, check_applied, not_converted, read_applied
from podfit.api.registry.kinds import POD, Kind
from podfit.api.schema import type_of
from podfit.api.schema.decoding.decode import DecodeError, convert
from podfit.api.schema.decoding.notes import UNSTRUCTURED
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.schema.decoding.yaml_nodes import YamlError
from podfit.api.schema.decoding.yamls import parse_yaml
from podfit.api.schema.types import Struct
from podfit.api.status import bad_request, conflict
from podfit.apiserver.calls import Call
from podfit.apiserver.dialects import Dialect
from podfit.apiserver.dialects.applying import native_configuration, overlaid
from podfit.apiserver.representation.forms import Form
from podfit.apiserver.representation.negotiate import Accepted
from podfit.apiserver.request import Response
from podfit.apiserver.verbs.translated import native
from podfit.apiserver.writing import custom_schema, managed
from podfit.apiserver.writing.bodies import check_name
from podfit.apiserver.writing.options import WriteOptions
from podfit.apiserver.writing.write import Write
from podfit.kit.clock import rfc3339
from podfit.store.backend import Record


async def apply(call: Call, accepted: Accepted, form: Form, options: WriteOptions) -> Response:
    struct = type_of(call.kind)
    assert struct is not None
    if call.route.subresource:
        # The main endpoint reads the configuration first, because it creates an absent object.
        call.objects.required(call.kind, call.namespace, call.route.name)
    applied = await call.offload(lambda: read_configuration(call, call.kind, options))
    write = call.write(options, call.route.subresource)
    if (dialect := write.dialect) is None:
        applier = _Applier(call, applied, struct, options)
    else:
        check_applied(applied, dialect.struct(call.kind))
        applier = _Translating(call, applied, struct, options, write, dialect)
    if not call.route.subresource and call.objects.record(call.kind, call.namespace, call.route.name) is None:
        metadata = applied.get("metadata")
        uid = metadata.get("uid") if isinstance(metadata, dict) else None
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise conflict(call.kind.plural, call.route.name, why, call.kind.group)
        written = await call.parts.writer.create(write, await call.offload(lambda: applier.merged(None)))
        return call.written(accepted, form, written, 201)

    def change(stored: Object, record: Record) -> Object:
        return applier.merged(stored)

    written = await call.parts.writer.update(write, change)
    return call.written(accepted, form, written)


class _Applier:
    def __init__(self, call: Call, applied: Object, struct: Struct, options: WriteOptions) -> None:
        self._call, self._applied, self._struct, self._options = call, applied, struct, options

    def merged(self, live: Object | None) -> Object:
        call = self._call
        made = apply_patch(
            live,
            self._applied,
            self._struct,
            managed.manager_of(call, self._options),
            self._options.force,
            rfc3339(call.objects.clock.now()),
            call.route.subresource,
            managed.reset_by_apply(call.kind, call.route.subresource),
        )
        if made is live:
            return made
        obj = self._typed(made, self._struct)
        obj["kind"], obj["apiVersion"] = call.kind.kind, call.kind.api_version
        check_name(obj, call.route.name, call.namespace)
        custom_schema.default(call.kind, obj)
        return obj

    def _typed(self, made: Object, struct: Struct) -> Object:
        """Decodes the merged object as its type: the schema accepts any scalar for an amount, but the type does not."""
        try:
            return convert(made, struct, field_validation="Ignore", dialect=UNSTRUCTURED).obj
        except DecodeError as error:
            raise not_converted(self._applied, str(error)) from None


class _Translating(_Applier):
    """Applies a configuration in an older dialect."""

    def __init__(
        self, call: Call, applied: Object, struct: Struct, options: WriteOptions, write: Write, dialect: Dialect
    ) -> None:
        super().__init__(call, native_configuration(dialect, call.kind, applied), struct, options)
        self._write, self._dialect, self._in_dialect = write, dialect, applied

    def merged(self, live: Object | None) -> Object:
        call, dialect = self._call, self._dialect
        made = super().merged(live)
        if call.kind != POD:
            return native(call, dialect, made)
        laid = overlaid(dialect.show(call.kind, made), self._in_dialect)
        submitted = self._write.submitted = self._typed(laid, dialect.struct(call.kind))
        if live is None:
            return made
        return dialect.put_back(call.kind, submitted, made, rfc3339(call.objects.clock.now()))


def read_configuration(call: Call, kind: Kind, options: WriteOptions) -> Object:
    """Reads the body. Duplicate keys are reported here; the schema reports unknown fields later."""
    try:
        value, twice = parse_yaml(call.request.body)
    except YamlError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if value is not None and not isinstance(value, dict):
        why = f"json: cannot unmarshal {json_word(value)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    applied = read_applied(value, kind.api_version, kind.kind)
    complaints = [f"error converting YAML to JSON: {text}" for text in twice]
    if complaints and options.validation == "Strict":
        raise bad_request(f"error strict decoding YAML: {complaints[0]}")
    if options.validation == "Warn":
        call.warnings += complaints
    return applied
