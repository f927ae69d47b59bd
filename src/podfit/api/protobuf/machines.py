"""`spec.virtualMachine` in protobuf, which has no field for it: it is sent as an annotation of the pod or the template.

A Kubernetes controller that reads a Deployment in protobuf copies the template with its annotations into a ReplicaSet,
and from there into pods. So the annotation survives where the field would have been lost, and is converted back to the
field. It is never stored.
"""

from __future__ import annotations

import msgspec

from podfit.api.objects import Object

ANNOTATION = "podfit.dev/virtual-machine"
CARRIERS = frozenset(("core.Pod", "core.PodTemplateSpec"))
"""Messages with metadata and the spec of a pod."""
FIELD = "virtualMachine"
_NAMED = b'"virtualMachine"'
_encode = msgspec.json.Encoder(order="sorted").encode


def with_annotation(json: bytes) -> bytes:
    """Converts a pod or a template to its protobuf form: the virtual machine becomes an annotation."""
    if _NAMED not in json:
        return json
    obj = msgspec.json.decode(json)
    machine = (obj.get("spec") or {}).get(FIELD)
    if machine is None:
        return json
    metadata = obj.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: _encode(machine).decode()}
    return msgspec.json.encode({**obj, "metadata": {**metadata, "annotations": annotations}})


def take_annotation(obj: Object) -> None:
    """Converts the annotation back to the field, in input from a client. Raises ValueError if it is invalid."""
    metadata = obj.get("metadata") or {}
    annotations = dict(metadata.get("annotations") or {})
    text = annotations.pop(ANNOTATION, None)
    if text is None:
        return
    try:
        machine = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise ValueError(f"the annotation {ANNOTATION} holds no virtual machine: {error}") from None
    obj["spec"] = {**(obj.get("spec") or {}), FIELD: machine}
    metadata["annotations"] = annotations
    if not annotations:
        del metadata["annotations"]
