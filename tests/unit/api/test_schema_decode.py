"""Typed decoding: which fields are kept or dropped, and errors with Go's messages."""

from __future__ import annotations

import gc
import json
import re
import weakref
from typing import Any

import pytest

from podfit.api.registry.kinds import POD, Kind, kind_named
from podfit.api.schema import type_named, type_of
from podfit.api.schema.decoding.decode import DecodeError, convert, decode
from podfit.api.schema.decoding.notes import UNSTRUCTURED
from podfit.api.schema.decoding.yamls import YamlError, parse_yaml
from podfit.api.status import ApiError
from podfit.api.text.gojson import GoSyntaxError, parse
from podfit.api.text.times import BadTime, micro_time_text

CONFIG_MAP, SECRET, DEPLOYMENT, SERVICE = map(kind_named, ("ConfigMap", "Secret", "Deployment", "Service"))


def body(value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def refusal(value: Any, kind: Kind = POD, mode: str = "Strict") -> str:
    with pytest.raises(ApiError) as caught:
        decode(body(value), kind, field_validation=mode)
    assert caught.value.code == 400
    return caught.value.message


def pod(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c1", **container}]}}


def test_kind_and_version_are_filled_in() -> None:
    assert decode(b"{}", CONFIG_MAP).obj == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}}


def test_structs_are_printed_even_when_empty_and_pointers_only_when_given() -> None:
    container = decode(body(pod()), POD).obj["spec"]["containers"][0]
    assert container == {"name": "c1", "resources": {}}
    given = decode(body({"spec": {"containers": [], "securityContext": {}, "affinity": None}}), POD).obj
    assert given["spec"] == {"containers": [], "securityContext": {}}
    assert given["status"] == {}


def test_required_fields_are_printed_as_zero_values() -> None:
    template = decode(body({"spec": {"template": {}}}), DEPLOYMENT).obj["spec"]["template"]
    assert template == {"metadata": {}, "spec": {"containers": None}}
    assert decode(body(pod(ports=[{}])), POD).obj["spec"]["containers"][0]["ports"] == [{"containerPort": 0}]


def test_empty_values_vanish_unless_a_pointer_holds_them() -> None:
    made = decode(body(pod(image="", command=[], tty=False, env=[{"name": "A", "value": ""}])), POD).obj
    assert made["spec"]["containers"][0] == {"name": "c1", "env": [{"name": "A"}], "resources": {}}
    spec = {"containers": [], "hostNetwork": False, "enableServiceLinks": False, "priority": 0, "hostname": ""}
    assert decode(body({"spec": spec}), POD).obj["spec"] == {
        "containers": [],
        "enableServiceLinks": False,
        "priority": 0,
    }


def test_quantities_become_canonical_and_resource_lists_round_up() -> None:
    resources = {"requests": {"cpu": 0.5, "memory": "1024Mi"}, "limits": {"cpu": "0.0001", "memory": 1073741824}}
    made = decode(body(pod(resources=resources)), POD).obj["spec"]["containers"][0]["resources"]
    assert made == {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1m", "memory": "1073741824"}}


@pytest.mark.parametrize("value", ["abc", "", "10 Mi", True, {"v": 1}, [1]])
def test_bad_quantities_are_refused_without_a_path(value: Any) -> None:
    text = refusal(pod(resources={"requests": {"cpu": value}}))
    assert text.startswith(
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression'
    )


def test_times_are_normalised_to_utc_seconds() -> None:
    given = {"metadata": {"creationTimestamp": "2021-03-04T05:06:07.9+02:00"}}
    assert decode(body(given), POD).obj["metadata"] == {"creationTimestamp": "2021-03-04T03:06:07Z"}
    assert decode(body({"metadata": {"creationTimestamp": None}}), POD).obj["metadata"] == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("soon", 'cannot parse "soon" as "2006"'),
        ("2021-03-04", 'cannot parse "" as "T"'),
        ("2021-03-04T05:06:07", 'cannot parse "" as "Z07:00"'),
    ],
)
def test_bad_times_are_explained_piece_by_piece(text: str, why: str) -> None:
    layout = '"2006-01-02T15:04:05Z07:00"'
    assert refusal({"metadata": {"creationTimestamp": text}}).endswith(f'parsing time "{text}" as {layout}: {why}')


def test_text_after_a_time_is_quoted() -> None:
    said = refusal({"metadata": {"creationTimestamp": "2021-03-04T05:06:07Zx"}})
    assert said.endswith('parsing time "2021-03-04T05:06:07Zx": extra text: "x"')


def test_times_out_of_range_are_refused() -> None:
    said = refusal({"metadata": {"creationTimestamp": "2021-13-04T05:06:07Z"}})
    assert said.endswith('parsing time "2021-13-04T05:06:07Z": month out of range')


def test_bytes_must_be_base64() -> None:
    assert decode(body({"data": {"k": "YQ=="}}), SECRET).obj["data"] == {"k": "YQ=="}
    for text, at in (("a b", 1), ("aG=x", 2), ("aG=", 3), ("aGk=x", 4), ("aG===", 4), ("a", 0)):
        assert refusal({"data": {"k": text}}, SECRET).endswith(f"illegal base64 data at input byte {at}")


def test_nulls_are_zero_values() -> None:
    assert decode(b'{"data": {"a": null}}', CONFIG_MAP).obj["data"] == {"a": ""}
    assert "labels" not in decode(b'{"metadata": {"labels": null}}', CONFIG_MAP).obj["metadata"]
    assert decode(b'{"spec": {"containers": [null]}}', POD).obj["spec"]["containers"] == [{"name": "", "resources": {}}]


_GRACE = "PodSpec.spec.terminationGracePeriodSeconds"


@pytest.mark.parametrize(
    ("value", "seen", "field", "wanted"),
    [
        (pod(resources="none"), "string", "Container.spec.containers.resources", "v1.ResourceRequirements"),
        (
            pod(resources={"requests": []}),
            "array",
            "ResourceRequirements.spec.containers.resources.requests",
            "v1.ResourceList",
        ),
        ({"spec": {"terminationGracePeriodSeconds": "x"}}, "string", _GRACE, "int64"),
        ({"spec": {"terminationGracePeriodSeconds": 1.5}}, "number 1.5", _GRACE, "int64"),
        (b'{"spec": {"priority": 1e3}}', "number 1e3", "PodSpec.spec.priority", "int32"),
        ({"spec": {"priority": 2**31}}, "number 2147483648", "PodSpec.spec.priority", "int32"),
        ({"metadata": {"labels": {"a": 1}}}, "number", "ObjectMeta.metadata.labels", "string"),
        ({"spec": []}, "array", "Pod.spec", "v1.PodSpec"),
        ({"spec": {"restartPolicy": True}}, "bool", "PodSpec.spec.restartPolicy", "v1.RestartPolicy"),
        ({"spec": {"containers": {}}}, "object", "PodSpec.spec.containers", "[]v1.Container"),
    ],
)
def test_wrong_types_are_named_with_their_path(value: Any, seen: str, field: str, wanted: str) -> None:
    why = f"json: cannot unmarshal {seen} into Go struct field {field} of type {wanted}"
    assert refusal(value) == f'Pod in version "v1" cannot be handled as a Pod: {why}'


def test_the_first_wrong_type_wins_but_a_bad_quantity_wins_over_it() -> None:
    both = {"spec": {"priority": "x", "containers": [{"resources": {"requests": {"cpu": "x"}}}]}}
    assert "quantities must match" in refusal(both)


def test_unknown_fields_are_refused_reported_or_ignored_but_never_kept() -> None:
    value = {**pod(bogus=1, resources={"lmits": {}}), "extra": {"a": 1}}
    text = 'unknown field "spec.containers[0].bogus", unknown field "spec.containers[0].resources.lmits"'
    assert refusal(value).endswith(f'strict decoding error: {text}, unknown field "extra"')
    warned = decode(body(value), POD, field_validation="Warn")
    assert warned.warnings[2] == 'unknown field "extra"'
    assert warned.obj == decode(body(value), POD, field_validation="Ignore").obj == decode(body(pod()), POD).obj


def test_duplicate_keys_are_found_wherever_they_are() -> None:
    raw = b'{"metadata": {"labels": {"a": "1", "a" : "2"}}, "spec": {"containers": [{"name": "a", "name": "b"}]}}'
    notes = ['duplicate field "metadata.labels.a"', 'duplicate field "spec.containers[0].name"']
    assert decode(raw, POD, field_validation="Warn").warnings == notes
    assert decode(raw, POD, field_validation="Warn").obj["spec"]["containers"][0]["name"] == "b"
    assert decode(raw, POD, field_validation="Ignore").warnings == []


def test_unknown_and_duplicate_fields_are_named_in_the_order_of_the_document() -> None:
    raw = b'{"spec": {"one": 1, "hostPID": true, "hostPID": false, "two": 2, "one": 3, "containers": []}}'
    notes = [
        "unknown field spec.one",
        "duplicate field spec.hostPID",
        "unknown field spec.two",
        "duplicate field spec.one",
    ]
    found = decode(raw, POD, field_validation="Warn").warnings
    assert [note.replace('"', "") for note in found] == notes


def test_strings_that_look_like_keys_are_not_duplicates() -> None:
    value = {"data": {"a": '{"a": 1, "a":2}'}}
    assert decode(body(value), CONFIG_MAP, field_validation="Strict").obj["data"] == value["data"]


@pytest.mark.parametrize(
    ("raw", "why", "shown"),
    [
        (b"", "unexpected end of JSON input", "<empty>"),
        (b"{", "unexpected end of JSON input", "{"),
        (b'{"a": tru}', "invalid character '}' in literal true (expecting 'e')", '{"a": tru}'),
        (b'{"a" 1}', "invalid character '1' after object key", '{"a" 1}'),
        (b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair", '{"a":1 "b":2}'),
        (b'{"a":[1 2]}', "invalid character '2' after array element", '{"a":[1 2]}'),
        (b"{,}", "invalid character ',' looking for beginning of object key string", "{,}"),
        (b'{"a":1}x', "invalid character 'x' after top-level value", '{"a":1}x'),
        (b'{"a":"\n"}', "invalid character '\\n' in string literal", '{"a":"\n"}'),
        (b'{"a":"\\x"}', "invalid character 'x' in string escape code", '{"a":"\\x"}'),
        (b'{"a":-}', "invalid character '}' in numeric literal", '{"a":-}'),
        (b'{"a":1.}', "invalid character '}' after decimal point in numeric literal", '{"a":1.}'),
        (b"nonsense", "invalid character 'o' in literal null (expecting 'u')", "6e6f6e73656e7365"),
        (b"[" * 20000, "exceeded max depth", "5b" * 30 + " ..."),
    ],
)
def test_broken_json_gets_gos_message(raw: bytes, why: str, shown: str) -> None:
    want = f"couldn't get version/kind; json parse error: {why} ({shown})"
    assert refusal(raw) == f"the object provided is unrecognized (must be of type Pod): {want}"


def test_nesting_python_cannot_follow_is_refused_not_crashed_on() -> None:
    assert "exceeded max depth" in refusal(b'{"a":' * 5000 + b"1" + b"}" * 5000)


def test_huge_numbers_are_refused_not_crashed_on() -> None:
    assert "cannot unmarshal number" in refusal(b'{"spec": {"priority": ' + b"9" * 400 + b"}}")
    assert "cannot unmarshal number" in refusal(b'{"spec": {"priority": 1e999}}')


def test_other_kinds_and_versions_are_refused() -> None:
    assert refusal({"apiVersion": "v1", "kind": "ConfigMap"}) == (
        'ConfigMap in version "v1" cannot be handled as a Pod: '
        "converting (v1.ConfigMap) to (core.Pod): unknown conversion"
    )
    assert refusal({"apiVersion": "v2", "kind": "Pod"}).endswith(
        'no kind "Pod" is registered for version "v2" in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )
    assert refusal({"apiVersion": "extensions/v1beta1", "kind": "Deployment"}, DEPLOYMENT) == (
        "the API version in the data (extensions/v1beta1) does not match the expected API version (apps/v1)"
    )


AUTOSCALER = kind_named("HorizontalPodAutoscaler", "autoscaling")


def test_a_version_that_kubernetes_has_removed_is_unknown() -> None:
    assert refusal({"apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler"}, AUTOSCALER).endswith(
        'no kind "HorizontalPodAutoscaler" is registered for version "autoscaling/v2beta2" '
        'in scheme "pkg/api/legacyscheme/scheme.go:30"'
    )


def test_a_version_that_kubernetes_decodes_but_does_not_serve_is_refused_for_its_version() -> None:
    assert refusal({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler"}, AUTOSCALER) == (
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
    )


def test_yaml_bodies_decode_like_json() -> None:
    text = b"kind: ConfigMap\nmetadata:\n  name: a\ndata:\n  on: 'yes'\n  when: \"2020-01-01\"\n"
    made = decode(text, CONFIG_MAP, content_type="application/yaml", field_validation="Strict")
    assert made.obj["data"] == {"true": "yes", "when": "2020-01-01"}
    twice = b"data:\n  a: x\n  a: z\n"
    made = decode(twice, CONFIG_MAP, content_type="application/yaml", field_validation="Warn")
    assert made.warnings == ['yaml: unmarshal errors:\n  line 3: key "a" already set in map']


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("22:22", "22:22"),
        ("0o17", 15),
        ("012", 10),
        ("08", 8),
        ("1_000", 1000),
        ("0x1F", 31),
        ("1e3", 1000),
        ("1e999", "1e999"),
        ("1.5", 1.5),
        ("y", True),
        ("Off", False),
        ("2001-01-01", "2001-01-01"),
        ("!!binary aGk=", "hi"),
        ("!!set {b}", {"b": None}),
    ],
)
def test_yaml_scalars_are_what_go_reads(text: str, value: object) -> None:
    assert parse_yaml(f"a: {text}".encode()) == ({"a": value}, [])


@pytest.mark.parametrize("text", [".nan", "-.inf", "!!int x", "!!float x", "!!bool x", "!!binary A", "&x [*x]"])
def test_yaml_that_json_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(YamlError):
        parse_yaml(f"a: {text}".encode())


@pytest.mark.parametrize(
    ("text", "value"), [('"\\ud800"', "\ufffd"), ('"\\ud83d\\ude00"', "😀"), ('"\\\\ud800"', "\\ud800")]
)
def test_half_of_a_surrogate_pair_becomes_the_replacement_character(text: str, value: str) -> None:
    assert parse(text.encode()) == value


def test_numbers_beyond_float64_are_refused_where_no_type_is_known() -> None:
    with pytest.raises(GoSyntaxError, match="cannot unmarshal number 1e999 into Go value of type float64"):
        parse(b"[1e999]")


def test_a_struct_without_a_kind_gets_bare_messages() -> None:
    with pytest.raises(ApiError) as caught:
        decode(b"{", type_named("DeleteOptions"))
    assert caught.value.message == "couldn't get version/kind; json parse error: unexpected end of JSON input"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"spec": "x"}, "cannot restore struct from: string"),
        ({"spec": {"containers": {"name": "c1"}}}, "cannot restore slice from map"),
        ({"spec": {"containers": "x"}}, "cannot restore slice from string"),
        ({"metadata": {"labels": []}}, "cannot restore map from slice"),
    ],
)
def test_patched_objects_are_refused_in_the_converters_words(value: Any, why: str) -> None:
    struct = type_of(POD)
    assert struct is not None
    with pytest.raises(DecodeError, match=why):
        convert(value, struct, dialect=UNSTRUCTURED)


def test_the_input_is_not_changed() -> None:
    struct = type_of(POD)
    assert struct is not None
    value = pod(resources={"requests": {"cpu": "1000m"}})
    before = json.dumps(value)
    made = convert(value, struct)
    made.obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9"
    assert json.dumps(value) == before


def test_service_ports_show_a_zero_target_port() -> None:
    assert decode(body({"spec": {"ports": [{"port": 80}]}}), SERVICE).obj["spec"]["ports"] == [
        {"port": 80, "targetPort": 0}
    ]


def test_numbers_as_quantities_keep_the_form_they_were_written_in() -> None:
    raw = b'{"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1e3, "memory": 0.5}}}]}}'
    requests = decode(raw, POD).obj["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "1e3", "memory": "500m"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"a: [b\n", "yaml: line 1: did not find expected ',' or ']'"),
        (b"a: b\nc: d: e\n", "yaml: line 2: mapping values are not allowed in this context"),
    ],
)
def test_broken_yaml_gets_gos_message(text: bytes, why: str) -> None:
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert str(caught.value) == why


def test_an_object_with_a_problem_is_not_cached() -> None:
    class Marked(dict[str, Any]):
        """A dict that supports weak references."""

    body = Marked(a=1)
    alive = weakref.ref(body)
    struct = type_of(kind_named("ConfigMap"))
    assert struct is not None
    assert convert({"data": {"a": "b"}, "unknown": body}, struct).warnings == ['unknown field "unknown"']
    del body
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"volumes": [{"name": 7}]}, "Volume.spec.volumes.name"),
        (
            {"volumes": [{"secret": {"secretName": 7}}]},
            "SecretVolumeSource.spec.volumes.VolumeSource.secret.secretName",
        ),
        (
            {"containers": [{"livenessProbe": {"httpGet": {"path": 7}}}]},
            "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.path",
        ),
        (
            {"containers": [{"envFrom": [{"secretRef": {"name": 7}}]}]},
            "SecretEnvSource.spec.containers.envFrom.secretRef.LocalObjectReference.name",
        ),
        (
            {"ephemeralContainers": [{"name": 7}]},
            "EphemeralContainer.spec.ephemeralContainers.EphemeralContainerCommon.name",
        ),
    ],
)
def test_a_field_of_the_wrong_type_is_named_behind_the_structs_that_embed_it(spec: dict[str, Any], field: str) -> None:
    said = refusal({"spec": spec})
    assert said.endswith(f"json: cannot unmarshal number into Go struct field {field} of type string")


def test_complaints_about_a_patched_object_are_in_the_order_of_names() -> None:
    value = {"spec": {"zz": 1, "containers": [{"zz": 1, "resources": {"yy": 1}}], "aa": 2}, "bogus": 1}
    struct = type_named("Pod")
    wanted = ["bogus", "spec.aa", "spec.containers[0].resources.yy", "spec.containers[0].zz", "spec.zz"]
    assert convert(value, struct).warnings == [f'unknown field "{path}"' for path in wanted]
    assert convert(value, struct, dialect=UNSTRUCTURED).warnings == [f'unknown field "{path}"' for path in wanted]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2021-03-04T05:06:07Z", 'cannot parse "Z" as ".000000"'),
        ("2021-03-04T05:06:07.12Z", 'cannot parse ".12Z" as ".000000"'),
        ("2021-03-04T05:06:07.1234567Z", 'cannot parse "7Z" as "Z07:00"'),
    ],
)
def test_times_in_microseconds_have_six_digits(text: str, why: str) -> None:
    layout = '"2006-01-02T15:04:05.000000Z07:00"'
    with pytest.raises(BadTime, match=re.escape(f'parsing time "{text}" as {layout}: {why}')):
        micro_time_text(text)
    assert micro_time_text("2021-03-04T05:06:07.000001Z") == "2021-03-04T05:06:07.000001Z"


def test_errors_in_yaml_are_found_in_the_order_of_its_keys() -> None:
    raw = b"metadata: {name: y}\ndata: {a: 1}\n"
    with pytest.raises(ApiError, match="Go struct field ConfigMap.data of type string"):
        decode(raw, kind_named("ConfigMap"), content_type="application/yaml")


@pytest.mark.parametrize(
    ("kind", "path", "empty"),
    [
        ("PersistentVolume", ("spec", "capacity"), {}),
        ("ConfigMap", ("metadata", "managedFields"), []),
    ],
)
def test_an_empty_value_that_is_not_the_same_as_none_is_kept(kind: str, path: tuple[str, str], empty: Any) -> None:
    body = {path[0]: {path[1]: empty, "labels": {}}}
    made = decode(json.dumps(body).encode(), kind_named(kind), field_validation="Ignore").obj
    assert made[path[0]][path[1]] == empty and "labels" not in made[path[0]]
