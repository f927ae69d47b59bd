"""Protobuf bodies are converted to the JSON that they represent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.protobuf import _READERS, BadProtobuf, to_json
from podfit.api.protobuf.table import message_types
from podfit.api.registry.kinds import BUILT_IN
from podfit.api.schema import struct_of


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple[int, Any]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, raw))


def read(api_version: str, kind: str, raw: bytes) -> Any:
    return json.loads(to_json(body(api_version, kind, raw)))


def test_pod_is_read_with_quantities_lists_maps_and_inlined_sources():
    meta = message((1, "p"), (3, "ns"), (11, message((1, "app"), (2, "x"))), (8, b""))
    cpu = message((1, "cpu"), (2, message((1, "100m"))))
    container = message((1, "c"), (2, "pause"), (8, message((2, cpu))))
    probe = message((1, message((2, message((1, "/"), (2, message((1, 0), (2, 8080))))))), (2, 5))
    volume = message((1, "v"), (2, message((2, message((1, ""))))))
    spec = message((1, volume), (2, container + field(10, probe)), (4, 0), (25, -5))
    obj = read("v1", "Pod", message((1, meta), (2, spec)))
    assert obj["metadata"] == {"name": "p", "namespace": "ns", "labels": {"app": "x"}, "creationTimestamp": None}
    assert obj["spec"]["volumes"] == [{"name": "v", "emptyDir": {"medium": ""}}]
    first = obj["spec"]["containers"][0]
    assert first["resources"] == {"requests": {"cpu": "100m"}}
    assert first["livenessProbe"] == {"httpGet": {"path": "/", "port": 8080}, "initialDelaySeconds": 5}
    assert obj["spec"]["terminationGracePeriodSeconds"] == 0 and obj["spec"]["priority"] == -5


def test_times_bytes_and_extra_values_have_their_json_form():
    moment = message((1, 1614834367), (2, 123456789))
    lease = read("coordination.k8s.io/v1", "Lease", message((2, message((1, "n1"), (4, moment)))))
    assert lease["spec"] == {"holderIdentity": "n1", "renewTime": "2021-03-04T05:06:07.123456Z"}
    event = read("v1", "Event", message((6, moment)))
    assert event["firstTimestamp"] == "2021-03-04T05:06:07Z"
    secret = read("v1", "Secret", message((2, message((1, "k"), (2, b"\x00\x01")))))
    assert secret["data"] == {"k": "AAE="}
    extra = message((1, "scope"), (2, message((1, "a"), (1, "b"))))
    review = read("authorization.k8s.io/v1", "SubjectAccessReview", message((2, message((5, extra)))))
    assert review["spec"]["extra"] == {"scope": ["a", "b"]}


def test_years_have_four_digits():
    moment = message((1, -62135596798 + (1 << 64)))
    lease = read("coordination.k8s.io/v1", "Lease", message((2, message((4, moment)))))
    assert lease["spec"]["renewTime"] == "0001-01-01T00:00:02.000000Z"
    assert read("v1", "Event", message((6, moment)))["firstTimestamp"] == "0001-01-01T00:00:02Z"


def test_strings_and_numbers_are_distinguished():
    budget = read("policy/v1", "PodDisruptionBudget", message((2, message((1, message((1, 1), (2, 0), (3, "50%")))))))
    assert budget["spec"]["minAvailable"] == "50%"
    budget = read("policy/v1", "PodDisruptionBudget", message((2, message((1, message((1, 0), (2, 3), (3, "")))))))
    assert budget["spec"]["minAvailable"] == 3


def test_delete_options_are_the_same_in_every_group():
    for version in ("v1", "apps/v1", "policy/v1"):
        assert read(version, "DeleteOptions", message((1, 0), (4, "Background"))) == {
            "apiVersion": version,
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "propagationPolicy": "Background",
        }


def test_unknown_fields_are_skipped():
    assert read("v1", "ConfigMap", message((999, "x"), (998, 7)))["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"k8s\x00\xff",
        body("v1", "Nothing", b""),
        body("v1", "Pod", b"\x0a\x05a"),
        body("v1", "Pod", b"\x0b"),
        body("v1", "Pod", field(1, 5)),
        body("v1", "ConfigMap", field(1, field(1, b"\xff\xfe"))),
    ],
)
def test_bytes_that_are_no_such_message_are_refused(data):
    with pytest.raises(BadProtobuf):
        to_json(data)


@given(st.sampled_from(["Pod", "Node", "Event", "ConfigMap", "DeleteOptions"]), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(kind, raw):
    for data in (raw, b"k8s\x00" + raw, body("v1", kind, raw)):
        try:
            json.loads(to_json(data))
        except BadProtobuf:
            pass


def test_every_type_that_is_named_is_listed_and_numbers_are_unique():
    table = message_types()
    for name, fields in table.items():
        assert len({json_name for json_name, _ in fields.values()}) == len(fields), name
        for _, kind in fields.values():
            inner = kind.removeprefix("[]").removeprefix("{}").removeprefix("^")
            assert inner in _READERS or inner in table, (name, inner)


def flattened(name: str) -> set[str]:
    names: set[str] = set()
    for json_name, kind in message_types()[name].values():
        names |= flattened(kind[1:]) if kind.startswith("^") else {json_name}
    return names


def test_names_are_those_of_the_typed_schema():
    groups = {"": "core", "rbac.authorization.k8s.io": "rbac"}
    checked = 0
    for kind in BUILT_IN:
        group = groups.get(kind.group, kind.group.partition(".")[0])
        for name in (f"{group}.{kind.kind}", f"{group}.{kind.kind}Spec", f"{group}.{kind.kind}Status"):
            struct = struct_of(kind.group, kind.version, name.partition(".")[2]) if name in message_types() else None
            if struct is not None:
                assert flattened(name) <= set(struct.fields), name
                checked += 1
    assert checked > 40


def test_definitions_of_custom_resources_are_read_with_their_schemas():
    leaf = message((5, "integer"))
    many = message((1, message((5, "string"))))
    open_map = message((1, 1))
    schema = message(
        (5, "object"),
        (29, message((1, "size"), (2, leaf))),
        (29, message((1, "names"), (2, message((5, "array"), (24, many))))),
        (30, open_map),
        (38, 1),
        (8, message((1, b'{"a":1}'))),
        (44, message((1, "self.size > 0"))),
    )
    version = message((1, "v1"), (2, 1), (3, 1), (4, message((1, schema))))
    spec = message((1, "e.io"), (3, message((1, "things"), (4, "Thing"))), (4, "Namespaced"), (7, version))
    definition = read("apiextensions.k8s.io/v1", "CustomResourceDefinition", message((2, spec)))
    found = definition["spec"]["versions"][0]
    assert found["served"] is True and found["storage"] is True
    assert found["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "names": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "default": {"a": 1},
        "x-kubernetes-validations": [{"rule": "self.size > 0"}],
    }


def test_sizes_of_a_pod_as_a_whole_are_read():
    cpu = message((1, "cpu"), (2, message((1, "1"))))
    pod = read("v1", "Pod", message((3, message((19, cpu), (20, message((2, cpu)))))))
    assert pod["status"] == {"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
