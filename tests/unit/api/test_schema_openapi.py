"""OpenAPI documents: complete references, merge keys, and the parts that kubectl requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from podfit.api.registry.kinds import BUILT_IN, VPA
from podfit.api.schema.custom.structural import custom_struct
from podfit.api.schema.publishing import openapi
from podfit.api.schema.publishing.openapi_proto import swagger_protobuf


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref" and isinstance(item, str):
                yield item
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def test_every_reference_has_a_schema() -> None:
    for where in openapi.index(BUILT_IN)["paths"]:
        found = openapi.at(BUILT_IN, where)
        assert found is not None
        known = {f"#/components/schemas/{name}" for name in found["components"].get("schemas", {})}
        assert set(references(found)) <= known, where
    everything = openapi.swagger(BUILT_IN)
    assert set(references(everything)) <= {f"#/definitions/{name}" for name in everything["definitions"]}


def test_the_index_names_every_group_and_its_hash_follows_the_content() -> None:
    paths = openapi.index(BUILT_IN)["paths"]
    assert {"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "version"} <= paths.keys()
    assert paths["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")
    fewer = [kind for kind in BUILT_IN if kind.kind != "Deployment"]
    assert openapi.index(fewer)["paths"]["apis/apps/v1"] != paths["apis/apps/v1"]
    assert openapi.at(BUILT_IN, "apis/nope/v1") is None


def test_merge_rules_are_published() -> None:
    core = openapi.at(BUILT_IN, "api/v1")
    assert core is not None
    spec = core["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    containers = spec["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["properties"]["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["required"] == ["containers"]


def test_patches_take_field_validation_and_say_their_kind() -> None:
    core = openapi.at(BUILT_IN, "api/v1")
    assert core is not None
    patch = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert "patch" in core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/resize"]


def test_custom_resources_are_published_with_their_own_schema() -> None:
    spec = {"type": "object", "properties": {"updatePolicy": {"type": "object"}}}
    vpa = replace(VPA, struct=custom_struct(VPA, {"type": "object", "properties": {"spec": spec}}))
    found = openapi.at([*BUILT_IN, vpa], "apis/autoscaling.k8s.io/v1")
    assert found is not None
    schema = found["components"]["schemas"]["io.k8s.autoscaling.v1.VerticalPodAutoscaler"]
    assert schema["properties"]["spec"]["properties"].keys() == {"updatePolicy"}
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "autoscaling.k8s.io", "kind": "VerticalPodAutoscaler", "version": "v1"}
    ]
    assert schema["properties"]["metadata"]["description"], "for kubectl explain"
    content = found["paths"]["/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/{name}"]
    assert "application/strategic-merge-patch+json" not in content["patch"]["requestBody"]["content"]


def fields_of(message: bytes) -> Iterator[tuple[int, Any]]:
    """Reads protocol buffers without their descriptors: field numbers with bytes or numbers."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return number

    while at < len(message):
        tag = varint()
        length = varint()
        if tag & 7 == 2:
            yield tag >> 3, message[at : at + length]
            at += length
        else:
            assert tag & 7 == 0
            yield tag >> 3, length


def test_custom_resources_with_any_fields_are_published_without_any_in_the_old_document() -> None:
    """With some of them kubectl would reject all others."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    vpa = replace(VPA, struct=custom_struct(VPA, schema))
    old = openapi.swagger([vpa])["definitions"]["io.k8s.autoscaling.v1.VerticalPodAutoscaler"]
    assert old.keys() == {"type", "x-kubernetes-group-version-kind"}
    new = openapi.at([vpa], "apis/autoscaling.k8s.io/v1")
    assert new is not None
    kept = new["components"]["schemas"]["io.k8s.autoscaling.v1.VerticalPodAutoscaler"]
    assert kept["x-kubernetes-preserve-unknown-fields"] and "metadata" in kept["properties"]


def test_the_old_document_travels_in_protocol_buffers() -> None:
    document = openapi.swagger(BUILT_IN)
    raw = swagger_protobuf(document)
    [definitions] = [value for number, value in fields_of(raw) if number == 9]
    names = {dict(fields_of(named))[1].decode() for _, named in fields_of(definitions)}
    assert names == document["definitions"].keys()
    [paths] = [value for number, value in fields_of(raw) if number == 8]
    assert {dict(fields_of(named))[1].decode() for _, named in fields_of(paths)} == document["paths"].keys()


def test_watches_discovery_and_the_version_have_paths() -> None:
    paths = openapi.swagger(BUILT_IN)["paths"]
    some = ("/api/", "/apis/apps/", "/apis/apps/v1/", "/version/", "/openid/v1/jwks/", "/api/v1/watch/pods")
    more = ("/api/v1/watch/namespaces/{namespace}/pods/{name}", "/api/v1/nodes/{name}/proxy/{path}")
    assert {*some, *more} <= paths.keys()
    assert paths["/api/v1/watch/pods"]["get"]["x-kubernetes-action"] == "watchlist"


def test_the_single_document_has_the_definitions_of_kubernetes_and_of_podfits_own_kinds() -> None:
    found = openapi.swagger(BUILT_IN)["definitions"]
    own = {name for name in found if "VirtualMachine" in name or ".autoscaling.v1alpha1." in name}
    own |= {name for name in found if name.startswith("io.k8s.autoscaling.")}
    assert len(found.keys() - own) == 584


def schema_of(name: str) -> dict[str, Any]:
    document = openapi.at(BUILT_IN, "api/v1")
    assert document is not None
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def test_fields_that_are_left_out_when_empty_may_be_required() -> None:
    rule = schema_of("io.k8s.api.core.v1.ContainerRestartRule")
    assert rule["required"] == ["action"] and "default" not in rule["properties"]["action"]


def test_elements_have_the_defaults_that_kubernetes_publishes() -> None:
    container = schema_of("io.k8s.api.core.v1.Container")["properties"]
    assert container["command"]["items"] == {"type": "string", "default": ""}
    assert container["ports"]["items"]["default"] == {}


def test_the_conditions_of_signing_requests_are_merged_by_type() -> None:
    document = openapi.at(BUILT_IN, "apis/certificates.k8s.io/v1")
    assert document is not None
    status = document["components"]["schemas"]["io.k8s.api.certificates.v1.CertificateSigningRequestStatus"]
    assert status["properties"]["conditions"]["x-kubernetes-list-map-keys"] == ["type"]


def test_a_type_of_which_one_field_is_set_names_what_decides() -> None:
    found = schema_of("io.k8s.api.core.v1.SeccompProfile")["x-kubernetes-unions"]
    assert found == [{"discriminator": "type", "fields-to-discriminateBy": {"localhostProfile": "LocalhostProfile"}}]


def test_any_value_is_an_extension_a_set_of_fields_or_json() -> None:
    found = openapi.swagger(BUILT_IN)["definitions"]
    package, meta = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1", "io.k8s.apimachinery.pkg.apis.meta.v1"
    schema = found[f"{package}.JSONSchemaProps"]["properties"]
    assert schema["default"]["$ref"] == f"#/definitions/{package}.JSON"
    assert schema["items"]["$ref"] == f"#/definitions/{package}.JSONSchemaPropsOrArray"
    assert found[f"{meta}.ManagedFieldsEntry"]["properties"]["fieldsV1"]["$ref"] == f"#/definitions/{meta}.FieldsV1"


def test_the_document_of_a_version_has_the_path_of_its_discovery() -> None:
    document = openapi.at(BUILT_IN, "apis/apps/v1")
    assert document is not None and "/apis/apps/v1/" in document["paths"]


def operation(path: str, method: str = "get") -> dict[str, Any]:
    found: dict[str, Any] = openapi.swagger(BUILT_IN)["paths"][path][method]
    return found


@pytest.mark.parametrize(
    ("path", "method", "identifier", "tag"),
    [
        ("/api/", "get", "getCoreAPIVersions", "core"),
        ("/apis/flowcontrol.apiserver.k8s.io/", "get", "getFlowcontrolApiserverAPIGroup", "flowcontrolApiserver"),
        ("/apis/apps/v1/", "get", "getAppsV1APIResources", "apps_v1"),
        ("/api/v1/namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize", "core_v1"),
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces", "core_v1"),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
            "delete",
            "deleteRbacAuthorizationV1CollectionNamespacedRole",
            "rbacAuthorization_v1",
        ),
        ("/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post", "createCoreV1NamespacedPodEviction", "core_v1"),
        (
            "/api/v1/nodes/{name}/proxy/{path}",
            "head",
            "connectCoreV1HeadNodeProxyWithPath",
            "core_v1",
        ),
        ("/api/v1/watch/pods", "get", "watchCoreV1PodListForAllNamespaces", "core_v1"),
        ("/api/v1/watch/namespaces/{name}", "get", "watchCoreV1Namespace", "core_v1"),
    ],
)
def test_an_operation_has_the_identifier_and_the_tag_of_kubernetes(
    path: str, method: str, identifier: str, tag: str
) -> None:
    found = operation(path, method)
    assert (found["operationId"], found["tags"]) == (identifier, [tag])


def test_no_two_operations_have_the_same_identifier() -> None:
    paths = openapi.swagger(BUILT_IN)["paths"].values()
    names = [made["operationId"] for item in paths for name, made in item.items() if name != "parameters"]
    assert len(names) == len(set(names))


def test_parameters_that_all_operations_of_a_path_take_are_listed_once() -> None:
    item = openapi.swagger(BUILT_IN)["paths"]["/api/v1/namespaces/{namespace}/bindings"]
    shared = [each["name"] for each in item["parameters"]]
    assert shared == ["dryRun", "fieldManager", "fieldValidation", "namespace", "pretty"]
    assert [each["name"] for each in item["post"]["parameters"]] == ["body"]


def test_the_deletion_of_some_kinds_returns_the_object() -> None:
    answers = {
        kind: operation(f"/api/v1/namespaces/{{namespace}}/{kind}/{{name}}", "delete")["responses"]["202"]["schema"]
        for kind in ("pods", "secrets")
    }
    assert answers["pods"]["$ref"].endswith(".Pod") and answers["secrets"]["$ref"].endswith(".Status")


def test_logs_are_text_with_the_parameters_of_logs() -> None:
    item = openapi.swagger(BUILT_IN)["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/log"]
    assert item["get"]["produces"][0] == "text/plain"
    kinds = {each["name"]: each["type"] for each in item["parameters"]}
    assert (kinds["tailLines"], kinds["follow"], kinds["container"]) == ("integer", "boolean", "string")


def test_a_path_of_custom_resources_takes_json_and_yaml_only() -> None:
    vpa = replace(VPA, struct=custom_struct(VPA, {"type": "object"}))
    item = openapi.swagger([vpa])["paths"]["/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers"]
    assert item["post"]["consumes"] == item["post"]["produces"] == ["application/json", "application/yaml"]
    assert item["get"]["operationId"] == "listAutoscalingV1NamespacedVerticalPodAutoscaler"
    assert "apis/autoscaling.k8s.io" not in openapi.index([vpa])["paths"]


def test_named_strings_list_their_values() -> None:
    assert schema_of("io.k8s.api.core.v1.Container")["properties"]["imagePullPolicy"]["enum"] == [
        "Always",
        "IfNotPresent",
        "Never",
    ]
    assert schema_of("io.k8s.api.core.v1.HostPathVolumeSource")["properties"]["type"]["enum"][0] == ""
    assert "enum" not in schema_of("io.k8s.api.core.v1.Container")["properties"]["name"]


def test_explicit_defaults_are_published_with_their_type() -> None:
    assert schema_of("io.k8s.api.core.v1.ReplicationControllerSpec")["properties"]["replicas"]["default"] == 1
    assert schema_of("io.k8s.api.core.v1.FileKeySelector")["properties"]["optional"]["default"] is False
    assert schema_of("io.k8s.api.core.v1.RBDVolumeSource")["properties"]["pool"]["default"] == "rbd"


def test_a_document_has_no_schema_that_it_does_not_refer_to() -> None:
    document = openapi.at(BUILT_IN, "apis/authentication.k8s.io/v1")
    assert document is not None
    assert not any(name.endswith(".DeleteOptions") for name in document["components"]["schemas"])


def custom_schemas(**fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields as published in version 3 and in version 2."""
    vpa = replace(VPA, struct=custom_struct(VPA, {"type": "object", "properties": fields, "required": sorted(fields)}))
    new = openapi.at([vpa], "apis/autoscaling.k8s.io/v1")
    assert new is not None
    name = "io.k8s.autoscaling.v1.VerticalPodAutoscaler"
    return new["components"]["schemas"][name], openapi.swagger([vpa])["definitions"][name]


def test_what_version_2_cannot_express_is_left_out() -> None:
    new, old = custom_schemas(
        n={"type": "string", "nullable": True, "default": None},
        o={"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]},
        p={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    )
    assert old["properties"]["n"] == {} and old["required"] == ["o", "p"]
    assert old["properties"]["o"] == {"type": "object", "properties": {"a": {"type": "string"}}}
    assert old["properties"]["p"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert new["properties"]["n"]["nullable"] and "oneOf" in new["properties"]["o"]


def test_marks_of_custom_schemas_are_spelled_out() -> None:
    new, _ = custom_schemas(
        amount={"x-kubernetes-int-or-string": True},
        inner={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    )
    assert new["properties"]["amount"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert new["properties"]["inner"]["required"] == ["kind", "apiVersion"]
    assert new["properties"]["inner"]["properties"].keys() == {"apiVersion", "kind", "metadata"}
