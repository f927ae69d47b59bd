"""Pods: errors in volumes, annotations and placement, with Kubernetes' messages and fields."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from podfit.api.registry.kinds import POD
from podfit.api.status import go_quote, go_value
from podfit.apiserver.strategy import strategy_for

PODS = strategy_for(POD)
_MANY = "may not specify more than 1 volume type"


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "1"}
    if annotations:
        metadata["annotations"] = annotations  # type: ignore[assignment]
    made = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "x"}], **copy.deepcopy(spec)}}
    PODS.default(made)
    PODS.prepare_create(made)
    return made


def errors(annotations: dict[str, str] | None = None, **spec: Any) -> list[str]:
    return [str(error) for error in PODS.validate_create(pod(annotations, **spec))]


def changed(old: dict[str, Any], **spec: Any) -> list[str]:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    PODS.prepare_update(new, old)
    return [str(error) for error in PODS.validate_update(new, old)]


def volume(**source: Any) -> list[str]:
    prefix = "spec.volumes[0]."
    return [text.removeprefix(prefix) for text in errors(serviceAccountName="s", volumes=[{"name": "v", **source}])]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({"emptyDir": {}, "cephfs": {"monitors": ["m"]}}, [f"cephFS: Forbidden: {_MANY}"]),
        ({"emptyDir": {}, "downwardAPI": {}}, [f"downwarAPI: Forbidden: {_MANY}"]),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": ""}}]}}, ["projected.path: Required value"]),
        ({"projected": {"sources": [{}]}}, []),
        (
            {"projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"name": "c"}}]}},
            ["projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"],
        ),
        (
            {"projected": {"sources": [{"downwardAPI": {"items": [{"path": "a"}]}}]}},
            ["projected.sources[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
        ),
        (
            {"iscsi": {"targetPortal": "t", "iqn": "iqn.bad"}},
            ['iscsi.iqn: Invalid value: "iqn.bad": must be valid format'],
        ),
        ({"fc": {}}, ["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        ({"flocker": {}}, ["flocker: Required value: one of datasetName and datasetUUID is required"]),
        (
            {"flexVolume": {"driver": "d", "options": {"a.k8s.io/x": "y"}}},
            ['flexVolume.options[a.k8s.io/x]: Invalid value: "a.k8s.io/x": kubernetes.io and k8s.io namespaces are '
             "reserved"],
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "n"}, "spec": {"accessModes": ["X"]}}}},
            ["ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
             'ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "X": supported values: '
             '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"',
             "ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value"],
        ),
        ({"image": {}}, ["image.reference: Required value"]),
    ],
)  # fmt: skip
def test_a_volume_is_refused_in_kubernetes_words(source: dict[str, Any], wanted: list[str]) -> None:
    assert volume(**source) == wanted


@pytest.mark.parametrize(
    ("key", "value", "wanted"),
    [
        (
            "controller.kubernetes.io/pod-deletion-cost",
            "x",
            'metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a 32bit '
            "integer",
        ),
        (
            "seccomp.security.alpha.kubernetes.io/pod",
            "x",
            'metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a valid '
            "seccomp profile",
        ),
        (
            "container.apparmor.security.beta.kubernetes.io/z",
            "unconfined",
            'metadata.annotations[container.apparmor.security.beta.kubernetes.io/z]: Invalid value: "z": container '
            "not found",
        ),
        (
            "scheduler.alpha.kubernetes.io/tolerations",
            "[",
            'metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/tolerations": unexpected end of JSON '
            "input",
        ),
    ],
)
def test_annotations_with_a_meaning_are_checked(key: str, value: str, wanted: str) -> None:
    assert errors({key: value}) == [wanted]


def test_a_deletion_cost_that_was_wrong_may_stay_wrong() -> None:
    old = pod({"controller.kubernetes.io/pod-deletion-cost": "x"})
    assert changed(old, activeDeadlineSeconds=5) == []


_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/a/b", {"type": "Localhost", "localhostProfile": "a/b"}),
        ("localhost/", None),
        ("localhost/ a", None),
        ("", None),
    ],
)
def test_an_app_armor_annotation_becomes_the_field_with_a_warning(written: str, field: dict[str, str] | None) -> None:
    made = pod({_APP_ARMOR: written})
    warning = f'metadata.annotations[{_APP_ARMOR}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert PODS.rewrite(made) == [warning]
    assert (made["spec"]["containers"][0].get("securityContext") or {}).get("appArmorProfile") == field


@pytest.mark.parametrize(
    "spec",
    [
        {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}},
        {"os": {"name": "windows"}},
        {"containers": [{"name": "c", "securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}]},
    ],
)
def test_an_app_armor_annotation_that_says_nothing_more_is_not_copied(spec: dict[str, Any]) -> None:
    made = pod({_APP_ARMOR: "unconfined"}, **spec)
    before = copy.deepcopy(made)
    assert PODS.rewrite(made) == [] and made == before


def test_an_annotation_of_one_container_may_differ_from_the_profile_of_the_pod() -> None:
    made = pod({_APP_ARMOR: "unconfined"}, securityContext={"appArmorProfile": {"type": "RuntimeDefault"}})
    PODS.rewrite(made)
    assert PODS.validate_create(made) == []


def test_profiles_given_twice_must_agree() -> None:
    found = errors(
        {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
        securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
    )
    assert found == [
        "spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match"
    ]


def _affinity(*values: str) -> dict[str, Any]:
    requirements = [{"key": value, "operator": "Exists"} for value in values]
    terms = {"nodeSelectorTerms": [{"matchExpressions": requirements}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_a_gated_pod_may_only_be_steered_more_narrowly() -> None:
    gate = [{"name": "g"}]
    old = pod(schedulingGates=gate, affinity=_affinity("a"), nodeSelector={"x": "y"})
    assert changed(old, affinity=_affinity("a", "b")) == []
    terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    path = f"{terms}[0]: Invalid value: "
    assert changed(old, affinity=_affinity("b")) == [
        path
        + '{"MatchExpressions":[{"Key":"b","Operator":"Exists","Values":null}],"MatchFields":null}: only additions '
        "are allowed (no mutations or deletions)"
    ]
    assert changed(old, nodeSelector={}) == [
        "spec.nodeSelector: Invalid value: {}: only additions to spec.nodeSelector are allowed (no mutations or "
        "deletions)"
    ]


def test_a_key_may_not_be_in_both_the_selector_and_match_label_keys() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "t",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "b"}},
        "matchLabelKeys": ["a"],
    }
    made = pod(topologySpreadConstraints=[constraint])
    assert [str(each) for each in PODS.validate_create(made)] == []
    labelled = {"metadata": {"name": "p", "namespace": "d", "labels": {"a": "b"}}, "spec": made["spec"]}
    PODS.prepare_create(labelled)
    assert [str(each) for each in PODS.validate_create(labelled)] == [
        'spec.topologySpreadConstraints[0][0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector'
    ]


def test_windows_refuses_fields_in_kubernetes_order() -> None:
    found = errors(os={"name": "windows"}, hostPID=True, securityContext={"seLinuxOptions": {}, "runAsUser": 1})
    assert [text.partition(":")[0] for text in found] == [
        "spec.securityContext.seLinuxOptions",
        "spec.hostPID",
        "spec.securityContext.runAsUser",
    ]


def test_more_rules_than_fit_are_counted() -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}
    container = {"name": "c", "image": "x", "restartPolicy": "Never", "restartPolicyRules": [rule] * 21}
    assert errors(containers=[container]) == [
        "spec.containers[0].restartPolicyRules: Too many: 21: must have at most 20 items"
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("a\x01b", r'"a\x01b"'), ("\x7f\n\t", r'"\x7f\n\t"'), ('"\\', r'"\"\\"'), ("ü", '"ü"'), ("\u200b", r'"\u200b"')],
)
def test_strings_are_quoted_as_go_quotes_them(text: str, wanted: str) -> None:
    assert go_quote(text) == wanted


def test_values_shown_as_json_escape_what_html_could_mistake() -> None:
    assert go_value(["<&>"]) == r'["\u003c\u0026\u003e"]'


def _mapping(container: str, resource: str) -> dict[str, Any]:
    return {"containerName": container, "resourceName": resource, "requestName": "r"}


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (
            {"containerStatuses": [{"name": "c", "user": {"linux": {"uid": -1, "gid": 0}}}]},
            ["containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
        ),
        (
            {"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [{"name": "a.b/gpu"}]}]},
            [
                'containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "a.b/gpu": must match one of '
                "the container's resource requests"
            ],
        ),
        (
            {"resourceClaimStatuses": [{"name": "x"}]},
            [
                'resourceClaimStatuses[0].name: Invalid value: "x": must match the name of an entry in '
                "`spec.resourceClaims`"
            ],
        ),
        (
            {"extendedResourceClaimStatus": {"resourceClaimName": "k", "requestMappings": []}},
            ["extendedResourceClaimStatus.requestMappings: Required value: at least one request mapping is required"],
        ),
        (
            {"extendedResourceClaimStatus": {"requestMappings": [_mapping("x", "cpu"), _mapping("c", "a.b/gpu")]}},
            [
                'extendedResourceClaimStatus.requestMappings[0].containerName: Invalid value: "x": must match the name '
                "of an entry in spec.initContainers.name or spec.containers.name",
                'extendedResourceClaimStatus.requestMappings[1].resourceName: Invalid value: "a.b/gpu": must match the '
                "extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests",
                "extendedResourceClaimStatus.resourceClaimName: Required value",
            ],
        ),
        (
            {"podIPs": [{"ip": "1.1.1.1"}, {"ip": "x"}]},
            [
                'podIPs[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
                "podIPs: Internal error: failed to check for dual stack with error:invalid IP[1]: x",
                'podIPs: Invalid value: [{"IP":"1.1.1.1"},{"IP":"x"}]: may specify no more than one IP for each IP '
                "family",
            ],
        ),
        (
            {"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]},
            [
                'hostIPs: Invalid value: [{"IP":"1.1.1.1"},{"IP":"1.1.1.1"}]: may specify no more than one IP for each '
                "IP family",
            ],
        ),
    ],
)
def test_a_status_is_refused_in_kubernetes_words(status: dict[str, Any], wanted: list[str]) -> None:
    old = pod()
    new = {**copy.deepcopy(old), "status": {**old["status"], **status}}
    PODS.prepare_update(new, old, "status")
    found = [str(error) for error in PODS.validate_update(new, old, "status")]
    assert found == [f"status.{text}" for text in wanted]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {"shareProcessNamespace": True, "hostPID": True},
            "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot "
            "both be enabled",
        ),
        (
            {"dnsConfig": {"searches": ["_a.b", "A"]}},
            'spec.dnsConfig.searches[1]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. "
            "'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
            r"(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
        ),
        ({"hostnameOverride": "a" * 65}, "spec.hostnameOverride: Too long: may not be more than 64 bytes"),
    ],
)
def test_a_spec_is_refused_in_kubernetes_words(spec: dict[str, Any], wanted: str) -> None:
    assert errors(**spec) == [wanted]


def resized(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    PODS.prepare_update(new, old, "resize")
    return [str(error) for error in PODS.validate_update(new, old, "resize")]


@pytest.mark.parametrize("stored", [None, {}, {"requests": {"ephemeral-storage": "1Gi"}}])
def test_a_resize_brings_no_other_resources_not_even_where_none_were_stated(stored: Any) -> None:
    old = pod()
    if stored is not None:
        old["spec"]["containers"][0]["resources"] = stored
    new = copy.deepcopy(old)
    asked = {"requests": {"ephemeral-storage": "1Gi"}, "limits": {"ephemeral-storage": "2Gi"}}
    new["spec"]["containers"][0]["resources"] = asked
    assert resized(old, new) == ["spec: Forbidden: only cpu and memory resources are mutable"]


def test_a_resize_that_renames_a_container_keeps_the_rest_and_the_status() -> None:
    old = pod()
    old["spec"]["initContainers"] = [{**old["spec"]["containers"][0], "name": "setup"}]
    old["status"] = {"qosClass": "BestEffort"}
    new = copy.deepcopy(old)
    del new["status"], new["spec"]["initContainers"][0]["image"]
    new["spec"]["containers"][0] |= {"name": "other", "resources": {"requests": {"cpu": "1"}}}
    assert resized(old, new) == [
        'spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing',
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
    ]


def test_a_resize_gives_no_restart_policy_to_an_init_container_that_ends() -> None:
    old = pod()
    old["spec"]["initContainers"] = [{**old["spec"]["containers"][0], "name": "setup"}]
    new = copy.deepcopy(old)
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    new["spec"]["initContainers"][0]["resizePolicy"] = [policy]
    assert resized(old, new)[1:] == [
        "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
        "spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of RestartContainer "
        "cannot be resized",
    ]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {"volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "p"}] * 2}}]},
            ['volume "v" (ConfigMap "c"): overlapping paths: "p" with "p"'],
        ),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {
                            "sources": [
                                {"serviceAccountToken": {"path": "a"}},
                                {"configMap": {"name": "c", "items": [{"key": "k", "path": "a/b"}]}},
                                {},
                            ]
                        },
                    }
                ]
            },
            [
                'volume "v" (Projected): overlapping paths: "a/b" (ConfigMap "c") with "a" (ServiceAccountToken)',
                'volume "v" (Projected) has no sources provided',
            ],
        ),
        (
            {"volumes": [{"name": "v", "storageos": {"volumeName": "x"}}]},
            ["spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+"],
        ),
        (
            {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
            [
                "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm."
                "labelSelector: a null labelSelector results in matching no pod"
            ],
        ),
        (
            {"containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostIP": "1.1.1.1"}]}]},
            [
                "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 "
                "Protocol:TCP HostIP:1.1.1.1}"
            ],
        ),
    ],
)
def test_a_pod_that_is_probably_not_meant_gets_a_warning(spec: dict[str, Any], wanted: list[str]) -> None:
    assert PODS.warnings_create(pod(**spec)) == wanted


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (
            {"hostAliases": [{"ip": "010.0.0.1"}], "dnsConfig": {"nameservers": ["001.2.3.4"]}},
            [
                'spec.dnsConfig.nameservers[0]: Invalid value: "001.2.3.4": must not have leading 0s',
                'spec.hostAliases[0].ip: Invalid value: "010.0.0.1": must not have leading 0s',
            ],
        ),
        (
            {"hostnameOverride": "h", "setHostnameAsFQDN": True},
            ["spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true"],
        ),
        (
            {"containers": [{"name": "c", "image": "x", "restartPolicy": ""}]},
            [
                'spec.containers[0].restartPolicy: Unsupported value: "": supported values: "Always", "Never", '
                '"OnFailure"'
            ],
        ),
        (
            {"tolerations": [{"key": "k", "operator": "Gt", "value": "1"}]},
            ['spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'],
        ),
    ],
)
def test_a_new_pod_is_refused_in_kubernetes_words(spec: dict[str, Any], wanted: list[str]) -> None:
    assert [str(error) for error in PODS.validate_create(pod(**spec))] == wanted


def test_devices_need_the_users_of_the_node() -> None:
    devices = [{"name": "d", "devicePath": "/dev/d"}]
    spec = {"hostUsers": False, "containers": [{"name": "c", "image": "x", "volumeDevices": devices}]}
    assert "spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false" in [
        str(error) for error in PODS.validate_create(pod(**spec))
    ]


def test_an_empty_probe_is_not_allowed_in_an_ephemeral_container() -> None:
    debugger = {"name": "d", "image": "x", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
    old = pod()
    new = {**copy.deepcopy(old)}
    new["spec"]["ephemeralContainers"] = [{**debugger, "lifecycle": {}, "resources": {}}]
    assert [str(error) for error in PODS.validate_update(new, old, "ephemeralcontainers")] == [
        "spec.ephemeralContainers[0].lifecycle: Forbidden: cannot be set for an Ephemeral Container"
    ]
