"""The API objects that a pod refers to, in Kubernetes' words."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.pods.pod_references import referenced


def volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def projected(**source: Any) -> dict[str, Any]:
    return volume(projected={"sources": [{"downwardAPI": {}}, source]})


def env(**source: Any) -> dict[str, Any]:
    return {"initContainers": [{"name": "i", "env": [{"name": "A", "valueFrom": source}]}]}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""),
        (volume(emptyDir={}), ""),
        (volume(hostPath={"path": "/"}), ""),
        (projected(downwardAPI={}), ""),
        ({"serviceAccountName": "a", **volume(secret={"secretName": "s"})}, "serviceaccounts"),
        ({"serviceAccount": "a"}, "serviceaccounts"),
        ({"imagePullSecrets": [{"name": "s"}]}, "secrets"),
        (env(secretKeyRef={"name": "s", "key": "k"}), "secrets"),
        ({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}]}]}, "configmaps"),
        (volume(secret={"secretName": "s"}), "secrets"),
        (volume(secret={}), "secrets (via secret volumes)"),
        (projected(configMap={"name": "m"}), "configmaps"),
        (projected(configMap={}), "configmaps (via projected volumes)"),
        (projected(serviceAccountToken={"path": "t"}), "serviceaccounts (via projected volumes)"),
        (projected(clusterTrustBundle={"path": "t"}), "clustertrustbundles"),
        ({"resourceClaims": [{"name": "c"}], **volume(csi={"driver": "d"})}, "resourceclaims"),
        (volume(csi={"driver": "d"}), "csidrivers (via CSI volumes)"),
        (volume(persistentVolumeClaim={"claimName": "c"}), "persistentvolumeclaims"),
        (volume(ephemeral={}), "persistentvolumeclaims (via ephemeral volumes)"),
    ],
)
def test_the_first_reference_is_named(spec: dict[str, Any], words: str) -> None:
    assert referenced({"metadata": {"name": "p"}, "spec": {"containers": [], **spec}}) == words


def test_an_unknown_projected_volume_source_is_rejected() -> None:
    with pytest.raises(ValueError, match='unknown source for projected volume "v"'):
        referenced({"spec": projected(news={})})
