"""Rules of storage.k8s.io that the recordings do not cover."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.registry.kinds import kind_named
from podfit.apiserver.strategy import strategy_for

VOLUMES = strategy_for(kind_named("PersistentVolume"))


def complaints(kind: str, obj: dict[str, Any]) -> list[str]:
    strategy = strategy_for(kind_named(kind))
    obj = {"metadata": {"name": "a.io"}, **obj}
    strategy.default(obj)
    strategy.prepare_create(obj)
    return [str(error) for error in strategy.validate_create(obj)]


def test_a_driver_gets_the_defaults_of_kubernetes_and_no_generation() -> None:
    strategy = strategy_for(kind_named("CSIDriver"))
    obj: dict[str, Any] = {"metadata": {"name": "a.io"}, "spec": {"preventPodSchedulingIfMissing": True}}
    strategy.default(obj)
    strategy.prepare_create(obj)
    assert obj["metadata"] == {"name": "a.io"}
    assert obj["spec"] == {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    }


def test_token_requests_have_one_audience_each_and_a_life_of_ten_minutes_at_least() -> None:
    tokens = [{"audience": "a", "expirationSeconds": 1}, {"audience": "a"}]
    assert complaints("CSIDriver", {"spec": {"tokenRequests": tokens}}) == [
        "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
        'spec.tokenRequests[1].audience: Duplicate value: "a"',
    ]


def test_repeated_topology_terms_are_duplicates_whatever_their_order() -> None:
    terms = [{"matchLabelExpressions": [{"key": "z", "values": values}]} for values in (["a", "b"], ["b", "a"])]
    assert complaints("StorageClass", {"provisioner": "a.io/b", "allowedTopologies": terms}) == [
        'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""'
    ]


def test_an_attributes_class_has_parameters_and_keeps_them() -> None:
    assert complaints("VolumeAttributesClass", {"driverName": "a.io"}) == [
        "parameters: Required value: must contain at least one key/value pair"
    ]
    strategy = strategy_for(kind_named("VolumeAttributesClass"))
    new, old = ({"driverName": "a.io", "parameters": {"a": word}} for word in "bc")
    assert [str(error) for error in strategy.validate_change(new, old)] == [
        "parameters: Forbidden: updates to parameters are forbidden."
    ]


def test_volumes_of_a_node_may_grow_while_the_driver_stays() -> None:
    strategy = strategy_for(kind_named("CSINode"))
    driver = {"name": "d.io", "nodeID": "n"}
    old = {"spec": {"drivers": [{**driver, "allocatable": {"count": 1}}]}}
    assert strategy.validate_change({"spec": {"drivers": [{**driver, "allocatable": {"count": 2}}]}}, old) == []
    assert strategy.validate_change({"spec": {"drivers": [{**driver, "topologyKeys": ["z"]}]}}, old) != []


def test_an_inline_volume_says_only_what_attaching_it_needs() -> None:
    def errors(**volume: Any) -> list[str]:
        spec = {"attacher": "a.io", "nodeName": "n", "source": {"inlineVolumeSpec": volume}}
        return [
            text.removeprefix("spec.source.inlineVolumeSpec") for text in complaints("VolumeAttachment", {"spec": spec})
        ]

    csi = {"driver": "a.io", "volumeHandle": "h"}
    assert errors(accessModes=["ReadWriteOnce"], csi=csi) == []
    assert errors(accessModes=["ReadWriteOnce"], csi=csi, capacity={"storage": "1Gi"}) == [
        ".capacity: Forbidden: may not be specified in the context of inline volumes"
    ]
    assert errors() == [
        ".csi: Required value: has to be specified in the context of inline volumes",
        ".accessModes: Required value",
        ": Required value: must specify a volume type",
    ]


def test_volumes_and_claims_are_warned_of_what_is_deprecated() -> None:
    old_class = {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}
    advice = (
        "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; "
        'use "storageClassName" attribute instead'
    )
    claims, claim = strategy_for(kind_named("PersistentVolumeClaim")), {"resources": {"requests": {"storage": "1.5"}}}
    broken = 'spec.resources.requests[storage]: fractional byte value "1.5" is invalid, must be an integer'
    assert claims.warnings_create({"metadata": old_class, "spec": claim}) == [advice, broken]
    term = {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "In", "values": ["a"]}]}
    spec = {
        "persistentVolumeReclaimPolicy": "Recycle",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "rbd": {"image": "x"},
    }
    volumes = strategy_for(kind_named("PersistentVolume"))
    wanted = [
        advice,
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "
        "approach is to use dynamic provisioning.",
        "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is "
        'deprecated since v1.14; use "kubernetes.io/os" instead',
        "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
    ]
    volume = {"metadata": old_class, "spec": spec}
    assert volumes.warnings_create(volume) == volumes.warnings_update(volume, {}) == wanted
    assert volumes.warnings_update(volume, {}, "status") == []


def _volume(**spec: Any) -> dict[str, Any]:
    whole = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    obj: dict[str, Any] = {"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {**whole, **spec}}
    strategy_for(kind_named("PersistentVolume")).default(obj)
    return obj


def _placed(key: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": ["b"]}]}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}


def test_a_volume_keeps_its_source_mode_and_place() -> None:
    volumes = strategy_for(kind_named("PersistentVolume"))

    def said(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
        return [str(error).partition("\n")[0] for error in volumes.validate_update(new, old)]

    old = _volume(**_placed("beta.kubernetes.io/os"))
    assert said(_volume(**_placed("beta.kubernetes.io/os"), storageClassName="s"), old) == []
    assert said(_volume(**_placed("kubernetes.io/os")), old) == []
    assert said(_volume(**_placed("x")), _volume()) == []
    fixed = "field is immutable, except for updating from beta label to GA"
    assert said(_volume(hostPath={"path": "/y"}, volumeMode="Block"), old) == [
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
        'volumeMode: Invalid value: "Block": field is immutable',
        f"nodeAffinity: Invalid value: null: {fixed}",
    ]
    shown = '{"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"x","Operator":"In","Values":["b"]}],'
    assert said(_volume(**_placed("x")), old) == [
        f'nodeAffinity: Invalid value: {shown}"MatchFields":null}}]}}}}: {fixed}'
    ]
    assert said(_volume(accessModes=[]), _volume()) == ["spec.accessModes: Required value"] * 2


def test_a_claim_keeps_its_mode() -> None:
    claims = strategy_for(kind_named("PersistentVolumeClaim"))
    new, old = ({"spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": mode}} for mode in ("Block", "Filesystem"))
    assert str(claims.validate_change(new, old)[-1]) == 'volumeMode: Invalid value: "Block": field is immutable'


def test_changed_parameters_are_shown_by_name() -> None:
    classes = strategy_for(kind_named("StorageClass"))
    new, old = {"parameters": {"x": "y", "a": "b"}}, {"parameters": {"x": "y"}}
    assert [str(error) for error in classes.validate_change(new, old)] == [
        'parameters: Invalid value: {"a":"b","x":"y"}: field is immutable'
    ]


def test_the_annotation_for_mount_options_is_warned_of_and_only_for_volumes_that_take_some() -> None:
    owner, name = strategy_for(kind_named("PersistentVolume")), "volume.beta.kubernetes.io/mount-options"
    common = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    mounted = {
        "metadata": {"name": "p", "annotations": {name: "ro"}},
        "spec": {**common, "nfs": {"server": "s", "path": "/"}},
    }
    assert owner.validate(mounted) == []
    assert owner.warnings_create(mounted) == [
        f'metadata.annotations[{name}]: deprecated since v1.31; use "mountOptions" attribute instead'
    ]
    local = {**mounted, "spec": {**common, "hostPath": {"path": "/a"}}}
    assert [str(error) for error in owner.validate(local)] == [
        f"metadata.annotations.{name}: Forbidden: may not specify mount options for this volume type"
    ]
    old = {"metadata": {"name": "p"}, "spec": {**common, "storageos": {"volumeName": "v"}}}
    assert owner.warnings_create(old) == ["spec.storageOS: deprecated in v1.22, non-functional in v1.25+"]


def test_a_volume_has_one_source_with_what_it_needs() -> None:
    def said(**source: object) -> list[str]:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
        return [str(error) for error in VOLUMES.validate({"metadata": {"name": "p"}, "spec": spec})]

    assert said() == ["spec: Required value: must specify a volume type"]
    assert said(hostPath={"path": "/a"}, nfs={"server": "s", "path": "/"}) == [
        "spec.nfs: Forbidden: may not specify more than 1 volume type"
    ]
    assert said(local={"path": "/a"}) == ["spec.nodeAffinity: Required value: Local volume requires node affinity"]
    secret = {"name": "s"}
    assert said(csi={"driver": "a.b", "nodeStageSecretRef": secret, "nodePublishSecretRef": secret}) == [
        "spec.csi.volumeHandle: Required value",
        "spec.csi.nodePublishSecretRef.namespace: Required value",
    ]
    assert said(hostPath={"path": "/"}, persistentVolumeReclaimPolicy="Recycle") == [
        "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"
    ]
    assert said(hostPath={"path": "/a"}, volumeAttributesClassName="c") == [
        "spec.csi: Required value: has to be specified when using volumeAttributesClassName"
    ]


def test_fields_that_a_source_omits_are_filled_in() -> None:
    volume = {"spec": {"rbd": {"monitors": ["m"], "image": "i", "pool": ""}}}
    VOLUMES.default(volume)
    assert volume["spec"]["rbd"] == {
        "monitors": ["m"],
        "image": "i",
        "pool": "rbd",
        "user": "admin",
        "keyring": "/etc/ceph/keyring",
    }


def test_a_volume_may_get_the_secret_for_its_expansion_later() -> None:
    source = {"driver": "a.b", "volumeHandle": "h"}
    late = {**source, "controllerExpandSecretRef": {"name": "s", "namespace": "n"}}
    assert [str(error) for error in VOLUMES.validate_change(_csi(late), _csi(source))] == []
    [error] = VOLUMES.validate_change(_csi(source), _csi(late))
    assert str(error).startswith("spec.persistentvolumesource: Forbidden: ")


def _csi(source: dict[str, object]) -> dict[str, object]:
    common = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    return {"metadata": {"name": "p"}, "spec": {**common, "csi": source}}


CLAIMS = strategy_for(kind_named("PersistentVolumeClaim"))
_BETA = "volume.beta.kubernetes.io/storage-class"
_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


def claim(
    annotations: dict[str, str] | None = None, status: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    obj = {
        "metadata": {"name": "c", "namespace": "d", "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], **size, **spec},
    }
    obj["metadata"]["annotations"] = annotations or {}
    CLAIMS.default(obj)
    CLAIMS.prepare_create(obj)
    return {**obj, "status": status or {}}


def claim_errors(new: dict[str, Any], old: dict[str, Any], subresource: str = "") -> list[str]:
    return [str(error).partition("\n")[0] for error in CLAIMS.validate_update(new, old, subresource)]


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        (
            claim({_BETA: "b"}),
            claim({_BETA: "a"}),
            [f'metadata.annotations.{_BETA}: Invalid value: "b": field is immutable'],
        ),
        (claim(storageClassName="a"), claim({_BETA: "a"}), []),
        (
            claim(storageClassName="b"),
            claim({_BETA: "a"}),
            [f'metadata.annotations.{_BETA}: Invalid value: "": field is immutable', f"spec: Forbidden: {_FIXED}"],
        ),
        (
            claim(volumeAttributesClassName=""),
            claim(status={"phase": "Bound", "currentVolumeAttributesClassName": "v"}),
            [
                "spec.volumeAttributesClassName: Forbidden: update to empty string is forbidden when "
                "status.currentVolumeAttributesClassName is not nil"
            ],
        ),
        (
            claim(resources={"limits": {"storage": "2Gi"}, "requests": {"storage": "1Gi"}}),
            claim(status={"phase": "Bound"}),
            [f"spec: Forbidden: {_FIXED}"],
        ),
        (claim(resources={"requests": {"storage": "2Gi"}}), claim(status={"phase": "Bound"}), []),
    ],
)
def test_an_update_of_a_claim_may_change_size_attributes_and_the_form_of_its_class(
    new: dict[str, Any], old: dict[str, Any], wanted: list[str]
) -> None:
    assert claim_errors(new, old) == wanted


def test_both_data_sources_of_a_claim_are_validated_once_it_has_a_group_no_longer() -> None:
    new = claim(dataSourceRef={"apiGroup": "^x", "kind": "K", "name": "n"})
    fields = [str(error).partition(":")[0] for error in CLAIMS.validate_create(new)]
    assert fields == ["spec.dataSource.apiGroup", "spec.dataSourceRef.apiGroup"]
    assert claim_errors(new, new) == []


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        ({"allocatedResourceStatuses": {"cpu": "NodeResizePending"}}, ['Statuses: Unsupported value: "cpu"']),
        ({"allocatedResourceStatuses": {"storage": "Odd"}}, ['Statuses: Unsupported value: "storage"']),
        ({"allocatedResources": {"cpu": "1"}}, [': Unsupported value: "cpu"']),
        ({"allocatedResources": {"storage": "-1"}}, ["[storage]: Invalid value: -1"]),
        ({"allocatedResources": {"a.io/b": "1", "storage": "1"}}, []),
    ],
)
def test_a_claims_status_counts_storage_only(status: dict[str, Any], wanted: list[str]) -> None:
    found = claim_errors(claim(status=status), claim(), "status")
    assert len(found) == len(wanted)
    assert all(text in error for text, error in zip(wanted, found, strict=True))
