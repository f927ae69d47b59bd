"""Kinds other than pods: defaults and errors that the recordings do not cover."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from podfit.api.registry.kinds import VPA, kind_named
from podfit.apiserver.strategy import Strategy, strategy_for

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
SELECTOR = {"matchLabels": {"a": "b"}}
NO_SPACE = {"name": "n", "resourceVersion": "1", "uid": "u"}


def strategy(kind: str, group: str | None = None) -> Strategy:
    return strategy_for(kind_named(kind, group))


def made(kind: str, group: str | None = None, **fields: Any) -> dict[str, Any]:
    owner = strategy(kind, group)
    metadata = {**NO_SPACE, **({"namespace": "d"} if owner.kind.namespaced else {}), **fields.pop("metadata", {})}
    obj = {"metadata": metadata, **copy.deepcopy(fields)}
    owner.default(obj)
    owner.prepare_create(obj)
    return obj


def errors(kind: str, group: str | None = None, **fields: Any) -> list[str]:
    return [str(error) for error in strategy(kind, group).validate_create(made(kind, group, **fields))]


def changes(kind: str, old: dict[str, Any], subresource: str = "", **fields: Any) -> list[str]:
    new = {**copy.deepcopy(old), **fields}
    strategy(kind).prepare_update(new, old, subresource)
    return [str(error) for error in strategy(kind).validate_update(new, old, subresource)]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_a_workload_with_the_least_that_is_needed_is_valid(kind: str) -> None:
    assert errors(kind, spec={"selector": SELECTOR, "template": TEMPLATE}) == []


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "DaemonSet"])
def test_a_selector_is_forever(kind: str) -> None:
    old = made(kind, spec={"selector": SELECTOR, "template": TEMPLATE})
    new = {**old["spec"], "selector": {"matchLabels": {"a": "b", "c": "d"}}}
    assert 'spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable' in changes(
        kind, old, spec=new
    )


@pytest.mark.parametrize(
    ("rolling", "wanted"),
    [
        (
            {"maxUnavailable": 0, "maxSurge": 0},
            ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        ),
        (
            {"maxUnavailable": "150%"},
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "150%": must not be greater than 100%'],
        ),
        (
            {"maxSurge": "x"},
            [
                'spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric '
                "string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ],
        ),
    ],
)
def test_a_rollout_must_be_able_to_move(rolling: dict[str, Any], wanted: list[str]) -> None:
    spec = {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"rollingUpdate": rolling}}
    assert errors("Deployment", spec=spec) == wanted


def test_a_suspended_job_may_be_resized_and_a_running_one_not() -> None:
    template = {"spec": {"restartPolicy": "Never", **TEMPLATE["spec"]}}
    for suspend in (True, False):
        old = made("Job", spec={"suspend": suspend, "template": template})
        spec = copy.deepcopy(old["spec"])
        spec["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        found = changes("Job", old, spec=spec)
        assert [error.split(":")[0] for error in found] == ([] if suspend else ["spec.template"])


def test_an_indexed_job_may_grow_together_with_its_parallelism() -> None:
    template = {"spec": {"restartPolicy": "Never", **TEMPLATE["spec"]}}
    old = made("Job", spec={"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": template})
    assert changes("Job", old, spec={**old["spec"], "completions": 3, "parallelism": 3}) == []
    assert changes("Job", old, spec={**old["spec"], "completions": 3}) == [
        "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"
    ]


def test_secrets_take_plain_text_and_keep_their_type() -> None:
    old = made("Secret", stringData={"a": "b"})
    assert (old["data"], old["type"], "stringData" in old) == ({"a": "Yg=="}, "Opaque", False)
    assert changes("Secret", old, type="x") == ['type: Invalid value: "x": field is immutable']


def test_a_namespace_carries_its_name_and_its_finalizer() -> None:
    made_ns = made("Namespace")
    assert made_ns["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert made_ns["spec"]["finalizers"] == ["kubernetes"]
    assert made_ns["status"] == {"phase": "Active"}


def test_a_node_registers_with_its_status_and_its_cidrs_stay() -> None:
    old = made("Node", spec={"podCIDRs": ["10.0.0.0/24"]}, status={"capacity": {"cpu": "4000m"}})
    assert old["status"]["allocatable"] == {"cpu": "4"}
    assert changes("Node", old, spec={"podCIDRs": ["10.0.1.0/24"]}) == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'
    ]


def test_a_role_needs_verbs_and_a_binding_keeps_its_role() -> None:
    assert errors("Role", rules=[{"apiGroups": [""], "resources": ["pods"]}]) == [
        "rules[0].verbs: Required value: verbs must contain at least one value"
    ]
    reference = {"kind": "Role", "name": "r"}
    old = made("RoleBinding", roleRef=reference)
    new = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "s"}}
    assert changes("RoleBinding", old, **new) == [
        'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"s"}: '
        "cannot change roleRef"
    ]


def test_a_service_gets_its_ports_filled_in_and_keeps_its_address() -> None:
    old = made("Service", spec={"ports": [{"port": 80}], "clusterIP": "10.0.0.1"})
    assert old["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert old["spec"]["clusterIPs"] == ["10.0.0.1"]
    kept = {"spec": {**old["spec"], "clusterIP": "", "clusterIPs": []}}
    assert changes("Service", old, **kept) == []
    moved = {"spec": {**old["spec"], "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}}
    assert changes("Service", old, **moved) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'
    ]


def test_custom_resources_count_changes_outside_metadata_and_status() -> None:
    custom = strategy_for(VPA)
    old = {"metadata": {**NO_SPACE, "namespace": "d"}, "spec": {"a": 1}, "status": {"x": 1}}
    custom.prepare_create(old)
    assert old["metadata"]["generation"] == 1 and "status" not in old
    for subresource, change, generation in (
        ("", {"spec": {"a": 2}}, 2),
        ("", {"status": {"x": 2}}, 1),
        ("status", {"status": {"x": 2}, "spec": {"a": 9}}, 1),
    ):
        new = {**copy.deepcopy(old), **change}
        custom.prepare_update(new, old, subresource)
        assert new["metadata"]["generation"] == generation
        assert new.get("status") == ({"x": 2} if subresource else None)


@pytest.mark.parametrize("name", ["a", "a-b.c", "1"])
def test_generated_names_keep_their_base_and_fit(name: str) -> None:
    long = strategy("Pod").generate_name("x" * 100)
    assert len(long) == 63 and strategy("Pod").generate_name(f"{name}-").startswith(f"{name}-")


def test_every_built_in_kind_has_a_strategy_that_takes_an_empty_object() -> None:
    from podfit.api.registry.kinds import BUILT_IN

    for kind in BUILT_IN:
        if kind.verbs == ("create",):
            continue
        obj: dict[str, Any] = {"metadata": {}}
        owner = strategy_for(kind)
        owner.default(obj)
        owner.prepare_create(obj)
        found = [error.path for error in owner.validate_create(obj)]
        if kind.kind == "LimitRange":
            assert "metadata.name" not in found  # a name is generated if there is none
        elif not owner.update_checks:
            assert found  # the name is validated only if there is no other error
        else:
            assert "metadata.name" in found


@pytest.mark.parametrize(
    ("least", "wanted"),
    [
        (-1, ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"]),
        (1, ["metadata.name: Required value: name or generateName is required"]),
    ],
)
def test_the_name_of_a_disruption_budget_is_checked_last(least: int, wanted: list[str]) -> None:
    budget = {"metadata": {"namespace": "n"}, "spec": {"minAvailable": least}}
    found = [str(error) for error in strategy("PodDisruptionBudget").validate_create(budget)]
    assert found == wanted


@pytest.mark.parametrize(
    ("hard", "wanted"),
    [
        (
            {"requests.cpu": "3", "limits.cpu": "1"},
            ["ResourceQuota requests.cpu (3) should be less than limits.cpu (1)"],
        ),
        (
            {"memory": "2Gi", "limits.memory": "1Gi"},
            ["ResourceQuota memory (2Gi) should be less than limits.memory (1Gi)"],
        ),
        ({"cpu": "3", "requests.cpu": "1", "limits.cpu": "2"}, []),
        ({"requests.cpu": "2", "limits.cpu": "2", "requests.memory": "1"}, []),
        ({"ephemeral-storage": "2", "limits.ephemeral-storage": "1"}, []),
        (
            {"requests.ephemeral-storage": "2", "limits.ephemeral-storage": "1"},
            ["ResourceQuota requests.ephemeral-storage (2) should be less than limits.ephemeral-storage (1)"],
        ),
    ],
)
def test_a_quota_of_more_requests_than_limits_is_warned_of(hard: dict[str, str], wanted: list[str]) -> None:
    assert strategy("ResourceQuota").warnings_create({"spec": {"hard": hard}}) == wanted


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize(
    ("features", "wanted"),
    [
        (["A", "B/c1", "B/d"], []),
        (["B", "A", "A"], ['[1]: Invalid value: "A": list must be sorted', '[2]: Duplicate value: "A"']),
        (["a"], ['[0]: Invalid value: "a": invalid feature name "a": must start']),
        (["A/"], ['[0]: Invalid value: "A/": invalid feature name "A/": must start']),
    ],
)
def test_a_node_declares_a_sorted_list_of_features(features: list[str], wanted: list[str], subresource: str) -> None:
    old = {"metadata": {"name": "n", "resourceVersion": "1"}}
    node = {"metadata": dict(old["metadata"]), "status": {"declaredFeatures": features}}
    nodes = strategy("Node")
    errors = nodes.validate_update(node, old, subresource) if subresource else nodes.validate_create(node)
    found = [str(error) for error in errors]
    assert len(found) == len(wanted)
    for text, start in zip(found, wanted, strict=True):
        assert text.startswith(f"status.declaredFeatures{start}")


def _pair(key: Any) -> tuple[str, str]:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    since = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(since).not_valid_after(since + timedelta(days=1))
    form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM).decode(), key.private_bytes(*form).decode()


def test_a_tls_secret_without_a_pair_is_stored_with_a_warning() -> None:
    owner = strategy("Secret")
    (mine, key), (_, other) = (_pair(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))
    odd = "-----BEGIN FOO-----\naGk=\n-----END FOO-----\n"
    junk = odd.replace("FOO", "CERTIFICATE")
    encrypted = odd.replace("FOO", "RSA PRIVATE KEY").replace("aGk=", "Proc-Type: 4,ENCRYPTED\n\naGk=")
    _, another_kind = _pair(rsa.generate_private_key(65537, 2048))
    skipped = "input after skipping PEM blocks of the following types: [FOO]"
    for certificate, private, wanted in (
        (mine, key, ""),
        (mine, other, "tls: private key does not match public key"),
        (mine, another_kind, "tls: private key type does not match public key type"),
        ("", "", "tls: failed to find any PEM data in certificate input"),
        (
            key,
            mine,
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs "
            "may have been switched",
        ),
        (odd, key, f'tls: failed to find "CERTIFICATE" PEM block in certificate {skipped}'),
        (mine, "x", "tls: failed to find any PEM data in key input"),
        (mine, encrypted, "tls: failed to parse private key"),
        (mine, mine, "tls: found a certificate rather than a key in the PEM for the private key"),
        (mine, odd, f'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key {skipped}'),
        (junk, key, "x509: malformed certificate"),
    ):
        obj: dict[str, Any] = {"type": "kubernetes.io/tls", "stringData": {"tls.crt": certificate, "tls.key": private}}
        owner.default(obj)
        assert owner.warnings_create(obj) == owner.warnings_update(obj, {}) == ([wanted] if wanted else [])


def test_nodes_accounts_and_runtime_classes_are_warned_of_what_is_deprecated() -> None:
    node = {"spec": {"externalID": "x", "podCIDRs": ["2001:DB8::/64"]}}
    assert strategy_for(kind_named("Node")).warnings_create(node) == [
        "spec.externalID: this field is deprecated, and is unused by Kubernetes",
        'spec.podCIDRs[0]: IPv6 CIDR value "2001:DB8::/64" should be in RFC 5952 canonical format ("2001:db8::/64")',
    ]
    account = {"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}}
    accounts = strategy_for(kind_named("ServiceAccount"))
    assert accounts.warnings_create(account) == [
        "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate "
        "namespaces to isolate access to mounted secrets"
    ]
    assert accounts.warnings_update(account, account) == []
    sized = {"handler": "h", "scheduling": {"nodeSelector": {"beta.kubernetes.io/arch": "x"}}}
    assert strategy_for(kind_named("RuntimeClass")).warnings_create(sized) == [
        'scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/arch" instead'
    ]


def test_a_definition_is_refused_for_every_part_it_lacks() -> None:
    obj = made("CustomResourceDefinition", spec={"group": "-1", "versions": []})
    said = [str(error).partition(":")[0] for error in strategy("CustomResourceDefinition").validate(obj)]
    assert said.count("spec.group") == 1
    assert "spec.names.singular" in said
    bare = made("CustomResourceDefinition", spec={})
    assert "status.storedVersions: Invalid value: null: must have at least one stored version" in [
        str(error) for error in strategy("CustomResourceDefinition").validate(bare)
    ]
    version = {"name": "V1", "served": True, "storage": True}
    shown = [
        str(each)
        for each in strategy("CustomResourceDefinition").validate(
            made("CustomResourceDefinition", spec={"group": "a.b", "versions": [version]})
        )
    ]
    assert "spec.versions[0].schema.openAPIV3Schema: Required value" in shown
    assert [each.partition(":")[0] for each in shown if '"V1"' in each][:2] == ["spec.versions[0].name", "spec.version"]


def _definition(*versions: dict[str, Any], **schema: Any) -> dict[str, Any]:
    rows = [{"schema": {"openAPIV3Schema": {"type": "object", **schema}}, **version} for version in versions]
    names = {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    spec = {"group": "ex.com", "scope": "Namespaced", "names": names, "versions": rows}
    return {"metadata": {"name": "foos.ex.com"}, "spec": spec}


def test_formats_no_value_is_checked_against_are_warned_of_once_and_not_again() -> None:
    owner = strategy("CustomResourceDefinition", "apiextensions.k8s.io")
    parts = {
        "a": {"type": "string", "format": "date-time"},
        "b": {"type": "string", "format": "semver"},
        "c": {"type": "array", "items": {"type": "integer", "format": "int16"}},
        "d": {"type": "object", "additionalProperties": {"type": "string", "format": "semver"}},
        "e": {"type": "boolean", "format": "int32"},
    }
    made = _definition({"name": "v1", "storage": True}, properties=parts)
    assert owner.warnings_create(made) == [f'unrecognized format "{name}"' for name in ("semver", "int16", "int32")]
    assert owner.warnings_update(made, made) == []


def test_a_duplicate_version_is_stored_once() -> None:
    owner = strategy("CustomResourceDefinition", "apiextensions.k8s.io")
    made = _definition({"name": "v1", "storage": True, "served": True}, {"name": "v1", "storage": True, "served": True})
    owner.default(made)
    owner.prepare_create(made)
    found = [f"{error.path}: {error.detail}" for error in owner.validate_create(made)]
    assert found[-1].startswith("status.storedVersions: ") and "must have the storage version v1" in found[-1]


def test_stored_versions_that_are_emptied_are_filled_in_again() -> None:
    made = _definition({"name": "v1", "storage": True}) | {"status": {"storedVersions": None}}
    strategy("CustomResourceDefinition", "apiextensions.k8s.io").default(made)
    assert made["status"]["storedVersions"] == ["v1"]


def test_a_revision_of_a_controller_needs_an_object_when_it_is_made() -> None:
    owner = strategy("ControllerRevision", "apps")
    for data, words in ((None, "data is mandatory"), ([1], "data must be a valid JSON object")):
        found = owner.validate_create({"metadata": {"name": "a", "namespace": "b"}, "revision": -1, "data": data})
        assert [error.path for error in found] == ["revision", "data"]
        assert words in str(found[1])
    made = {"metadata": {"name": "a", "namespace": "b"}, "data": {"a": 1}}
    found = owner.validate_update({"metadata": made["metadata"], "data": None}, made)
    assert [str(error) for error in found if error.path == "data"] == ["data: Invalid value: null: field is immutable"]


def test_a_mutating_webhook_is_refused_for_its_address_last() -> None:
    hook = {"name": "a.b.c", "sideEffects": "None", "reinvocationPolicy": "R", "admissionReviewVersions": ["v1"]}
    made = {"metadata": {"name": "h"}, "webhooks": [{**hook, "objectSelector": {"matchLabels": {"a b": "c"}}}]}
    found = strategy("MutatingWebhookConfiguration", "admissionregistration.k8s.io").validate(made)
    assert [error.path.removeprefix("webhooks[0].") for error in found] == [
        "objectSelector.matchLabels",
        "reinvocationPolicy",
        "clientConfig",
    ]


def test_a_stateful_set_is_warned_of_its_claims_and_history_on_each_write() -> None:
    claim = {"metadata": {"name": "v"}, "spec": {"resources": {"requests": {"storage": "1500m"}}}}
    stored = {"metadata": {"name": "w"}, "spec": {"revisionHistoryLimit": -1, "volumeClaimTemplates": [claim]}}
    sets = strategy("StatefulSet")
    for found, place in (
        (sets.warnings_create(stored), "spec.volumeClaimTemplates[0]"),
        (sets.warnings_update(stored, stored), "spec.volumeClaimTemplates[0].Spec"),
    ):
        fraction, history = found
        assert fraction.startswith(f"{place}.resources.requests[storage]: fractional byte value")
        assert history.startswith("spec.revisionHistoryLimit: a negative value")
    assert sets.warnings_update(stored, stored, "status") == []


def test_immutable_fields_of_a_daemon_set_are_reported_first() -> None:
    spec = {"selector": SELECTOR, "template": TEMPLATE}
    old = {"metadata": {**NO_SPACE, "namespace": "d"}, "spec": spec}
    new = {**copy.deepcopy(old), "spec": {**copy.deepcopy(spec), "selector": {}}}
    first = strategy("DaemonSet").validate_update(new, old)[0]
    assert (first.path, first.detail) == ("spec.selector", "field is immutable")


_AVOID = "scheduler.alpha.kubernetes.io/preferAvoidPods"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"preferAvoidPods": [{"podSignature": {"podController": {"controller": true}}}]}', []),
        ('{"preferAvoidPods": [{}]}', [f"metadata.annotations.{_AVOID}[0].PodSignature: Required value"]),
        (
            '{"preferAvoidPods": [{"podSignature": {"podController": {"controller": false}}}]}',
            [
                f"metadata.annotations.{_AVOID}[0].PodSignature.PodController.Controller: Invalid value: false: must "
                "point to a controller"
            ],
        ),
    ],
)
def test_controllers_that_a_node_avoids_are_controllers(text: str, wanted: list[str]) -> None:
    node = {"metadata": {"name": "n", "annotations": {_AVOID: text}}}
    assert [str(error) for error in strategy_for(kind_named("Node")).validate_create(node)] == wanted


def test_a_nodes_swap_and_the_length_of_its_features_are_validated() -> None:
    status = {"nodeInfo": {"swap": {"capacity": 0}}, "declaredFeatures": ["F" * 254]}
    errors = strategy_for(kind_named("Node")).validate_create({"metadata": {"name": "n"}, "status": status})
    assert [str(error).rpartition(": ")[2] for error in errors] == [
        "must be greater than zero",
        "must be no more than 253 characters",
    ]
