"""Names of ReplicaSets equal those that Kubernetes would generate."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.api.schema import type_named
from podfit.api.schema.golang.godump import go_dump
from podfit.controllers.workloads.deployments.hashing import template_hash

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "w"}},
    "spec": {
        "containers": [
            {
                "name": "c1",
                "image": "registry.k8s.io/pause:3.10",
                "resources": {
                    "limits": {"cpu": "200m", "memory": "128Mi"},
                    "requests": {"cpu": "100m", "memory": "64Mi"},
                },
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "automountServiceAccountToken": False,
        "securityContext": {},
        "schedulerName": "manual",
    },
}


def dumped(**spec: Any) -> str:
    return go_dump({"metadata": {}, "spec": {"containers": [], **spec}}, type_named("PodTemplateSpec"))


def test_a_template_is_named_as_a_kubernetes_cluster_named_it() -> None:
    assert template_hash(TEMPLATE) == "6f5959d6f"


def test_the_order_of_keys_does_not_matter() -> None:
    turned = copy.deepcopy(TEMPLATE)
    turned["spec"] = dict(reversed(turned["spec"].items()))
    assert template_hash(turned) == template_hash(TEMPLATE)


def test_collisions_lead_to_another_name() -> None:
    assert len({template_hash(TEMPLATE, count) for count in range(5)}) == 5


def test_embedded_structs_are_printed_inside() -> None:
    text = dumped(volumes=[{"name": "v", "configMap": {"name": "c"}}])
    assert "Volumes:([]v1.Volume)[{Name:(string)v VolumeSource:(v1.VolumeSource){HostPath:" in text
    assert (
        "ConfigMap:(*v1.ConfigMapVolumeSource){LocalObjectReference:(v1.LocalObjectReference){Name:(string)c}" in text
    )


def test_probes_print_their_handler_and_port() -> None:
    text = dumped(containers=[{"livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 5}}])
    assert "LivenessProbe:(*v1.Probe){ProbeHandler:(v1.ProbeHandler){Exec:(*v1.ExecAction)<nil> HTTPGet:" in text
    assert "Port:(intstr.IntOrString){Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)web}" in text


@pytest.mark.parametrize(
    ("text", "amount", "kept"),
    [
        ("1500m", "value:(int64)1500 scale:(resource.Scale)-3", "1500m"),
        ("9Mi", "value:(int64)9437184 scale:(resource.Scale)0", "9Mi"),
        ("8Mi", "value:(int64)8388608 scale:(resource.Scale)0", ""),
        ("0", "value:(int64)0 scale:(resource.Scale)0", "0"),
        ("1e3", "value:(int64)1 scale:(resource.Scale)3", "1e3"),
    ],
)
def test_quantities_keep_their_text_where_reading_proves_it_canonical(text: str, amount: str, kept: str) -> None:
    found = dumped(overhead={"cpu": text})
    assert f"i:(resource.int64Amount){{{amount}}}" in found
    assert f" s:(string){kept} Format:" in found


def test_quantities_too_large_for_64_bits_print_as_big_numbers() -> None:
    words = divmod(100 * 2**40 * 10**9, 2**64)
    assert f"abs:(big.nat)[{words[1]} {words[0]}]}} scale:(inf.Scale)9" in dumped(overhead={"memory": "100Ti"})


@given(st.sampled_from(["hostname", "nodeName", "priorityClassName"]), st.text(min_size=1))
def test_another_value_is_another_text(name: str, value: str) -> None:
    assert dumped(**{name: value}) != dumped()
