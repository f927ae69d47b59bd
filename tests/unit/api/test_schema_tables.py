"""The tables: every kind has a type, and decoding does not change what a real server returned."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podfit.api.registry.kinds import BUILT_IN, Registry
from podfit.api.schema import TABLES, ListOf, Struct, optional_structs, table_of, type_named, type_of
from podfit.api.schema.decoding.decode import convert

VECTORS = Path(os.environ.get("PODFIT_VECTORS", Path(__file__).parents[3] / ".." / "shared" / "vectors")) / "api"


def test_every_built_in_kind_has_a_type() -> None:
    assert [kind.kind for kind in BUILT_IN if type_of(kind) is None] == []


def test_every_type_of_every_table_resolves() -> None:
    for group, version in TABLES:
        table = table_of(group, version)
        assert table is not None
        for name in table.names():
            struct = table.own(name)
            assert isinstance(struct, Struct)


def test_associative_lists_name_keys_their_items_have() -> None:
    for group, version in TABLES:
        table = table_of(group, version)
        assert table is not None
        for name in table.names():
            struct = table.own(name)
            assert isinstance(struct, Struct)
            for row in struct:
                if isinstance(row.type, ListOf) and row.type.keys:
                    assert isinstance(row.type.item, Struct), (name, row.name)
                    assert set(row.type.keys) <= set(row.type.item.fields), (name, row.name)
                if row.merge_key:
                    assert isinstance(row.type, ListOf)
                    assert isinstance(row.type.item, Struct)
                    assert row.merge_key in row.type.item.fields


def test_groups_with_types_of_the_same_name_keep_them_apart() -> None:
    old, new = (type_named("HorizontalPodAutoscalerSpec", "autoscaling", version) for version in ("v1", "v2"))
    assert "targetCPUUtilizationPercentage" in old.fields
    assert "metrics" in new.fields
    assert "regarding" in type_named("Event", "events.k8s.io").fields
    assert "involvedObject" in type_named("Event").fields


_TIMES = {"<time>": "2026-01-01T00:00:00Z", "<microtime>": "2026-01-01T00:00:00.000000Z"}


def _timed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_timed(item) for item in value]
    return _TIMES.get(value, value) if isinstance(value, str) else value


def _answers() -> Iterator[dict[str, Any]]:
    for file in sorted(VECTORS.glob("*.json")):
        for step in json.loads(file.read_text())["steps"]:
            found = step["response"].get("body")
            if step.get("compare") or step.get("ignore") or not isinstance(found, dict):
                continue
            yield _timed(found)


@pytest.mark.skipif(not VECTORS.is_dir(), reason="the recorded vectors are not here")
def test_recorded_objects_decode_to_themselves() -> None:
    kinds, count = Registry(), 0
    for obj in _answers():
        kind = kinds.of(obj.get("apiVersion", ""), obj.get("kind", ""))
        if kind is None or "items" in obj:
            continue
        struct = type_of(kind)
        assert struct is not None
        made = convert(obj, struct)
        assert made.warnings == []
        assert made.obj == obj
        count += 1
    assert count > 100


def test_fields_that_are_always_pointers_to_structs_are_known() -> None:
    known = optional_structs()
    assert {"paramKind", "affinity", "namespaceSelector"} <= known
    assert not {"labels", "resources", "podSelector", "replicas", "metadata"} & known


def test_a_struct_that_is_atomic_elsewhere_is_merged_where_a_table_says_so() -> None:
    claim = type_named("PersistentVolumeSpec").fields["claimRef"].type
    assert isinstance(claim, Struct) and not claim.atomic and type_named("ObjectReference").atomic
