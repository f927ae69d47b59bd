"""Rows of core/v1 kinds other than pods."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Layout,
    age,
    containers_and_images,
    labels_text,
    name,
    since,
    spec,
    status,
    wide,
)

_ADDRESSES_TEXT = (
    "List of addresses reachable to the node. Queried from cloud provider, if available. More info: "
    "https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but "
    "the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should "
    "instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that "
    "addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be "
    "possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API "
    "(status.hostIP)."
)
_ROLE_LABEL = "node-role.kubernetes.io/"


def _node(obj: Object) -> list[Any]:
    ready = next((row for row in status(obj).get("conditions") or [] if row.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    if spec(obj).get("unschedulable"):
        word += ",SchedulingDisabled"
    info = status(obj).get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("kernelVersion") and info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name(obj),
        word,
        _roles(obj["metadata"].get("labels") or {}),
        age(obj),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _roles(labels: Object) -> str:
    roles = {key[len(_ROLE_LABEL) :] for key in labels if key.startswith(_ROLE_LABEL)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(obj: Object, kind: str) -> str:
    rows = status(obj).get("addresses") or []
    return next((row.get("address", "") for row in rows if row.get("type") == kind), NONE)


_NODES = Layout(
    (
        NAME,
        Column("Status", description="The status of the node"),
        Column("Roles", description="The roles of the node"),
        AGE,
        Column("Version", description="Kubelet Version reported by the node."),
        wide("Internal-IP", _ADDRESSES_TEXT),
        wide("External-IP", _ADDRESSES_TEXT),
        wide("OS-Image", "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy))."),
        wide("Kernel-Version", "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64)."),
        wide(
            "Container-Runtime",
            "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
        ),
    ),
    _node,
)


def _quota(obj: Object) -> list[Any]:
    hard, used = status(obj).get("hard") or {}, status(obj).get("used") or {}
    requests = [f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard) if not _is_limit(key)]
    limits = [f"{key}: {used.get(key, '0')}/{hard[key]}" for key in sorted(hard) if _is_limit(key)]
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj)]


def _is_limit(key: str) -> bool:
    return key.startswith("limits.")


_QUOTAS = Layout(
    (
        NAME,
        Column(
            "Request", description="Request represents a minimum amount of cpu/memory that a container may consume."
        ),
        Column(
            "Limit",
            description="Limits control the maximum amount of cpu/memory that a container may use independent of "
            "contention on the node.",
        ),
        AGE,
    ),
    _quota,
)


def _service(obj: Object) -> list[Any]:
    ports = []
    for row in spec(obj).get("ports") or []:
        number = f"{row.get('port')}:{row['nodePort']}" if row.get("nodePort") else str(row.get("port"))
        ports.append(f"{number}/{row.get('protocol', 'TCP')}")
    kind = spec(obj).get("type", "ClusterIP")
    address = spec(obj).get("clusterIP") or NONE
    return [
        name(obj),
        kind,
        address,
        _external_address(obj, kind),
        ",".join(ports) or NONE,
        age(obj),
        labels_text(spec(obj).get("selector")),
    ]


def _external_address(obj: Object, kind: str) -> str:
    given = spec(obj).get("externalIPs") or []
    if kind == "ExternalName":
        return str(spec(obj).get("externalName", ""))
    if kind == "LoadBalancer":
        rows = (status(obj).get("loadBalancer") or {}).get("ingress") or []
        found = [row.get("ip") or row.get("hostname", "") for row in rows]
        return ",".join([*found, *given]) or "<pending>"
    return ",".join(given) or NONE


_SERVICES = Layout(
    (
        NAME,
        Column("Type", description="How the service is exposed."),
        Column("Cluster-IP", description="The address of the service inside the cluster."),
        Column("External-IP", description="Addresses of the service outside the cluster."),
        Column("Port(s)", description="The ports the service exposes."),
        AGE,
        wide("Selector", "The labels of the pods that traffic goes to."),
    ),
    _service,
)


def _endpoints(obj: Object) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or [{}]:
            for address in subset.get("addresses") or []:
                found.append(f"{address.get('ip')}:{port['port']}" if port.get("port") else address.get("ip", ""))
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [name(obj), shown or NONE, age(obj)]


def _event(obj: Object) -> list[Any]:
    series, about = obj.get("series") or {}, obj.get("involvedObject") or obj.get("regarding") or {}
    first = obj.get("firstTimestamp") or obj.get("eventTime")
    last = series.get("lastObservedTime") or obj.get("lastTimestamp") or first
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    message = obj.get("message") or obj.get("note") or ""
    target = f"{about.get('kind', '').lower()}/{about['name']}" if about.get("name") else about.get("kind", "").lower()
    return [
        since(last),
        obj.get("type", ""),
        obj.get("reason", ""),
        target,
        about.get("fieldPath", ""),
        ", ".join(part for part in (component, source.get("host") or obj.get("reportingInstance", "")) if part),
        message.strip(),
        since(first),
        series.get("count") or obj.get("count") or obj.get("deprecatedCount") or 1,
        name(obj),
    ]


_EVENTS = Layout(
    (
        Column("Last Seen", description="When this event was last seen."),
        Column("Type", description="Normal or Warning; there may be more."),
        Column("Reason", description="Why the event happened, in one word."),
        Column("Object", description="The object the event is about."),
        wide("Subobject", "The part of the object the event is about."),
        wide("Source", "The component that reported the event."),
        Column("Message", description="What happened, for people."),
        wide("First Seen", "When the event was seen for the first time."),
        wide("Count", "How often the event happened."),
        Column("Name", "string", NAME.description, 1, "name"),
    ),
    _event,
)


def _namespace(obj: Object) -> list[Any]:
    return [name(obj), status(obj).get("phase", ""), age(obj)]


def _config_map(obj: Object) -> list[Any]:
    return [name(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj)]


def _secret(obj: Object) -> list[Any]:
    return [name(obj), obj.get("type", ""), len(obj.get("data") or {}), age(obj)]


def _service_account(obj: Object) -> list[Any]:
    return [name(obj), age(obj)]


def _pod_template(obj: Object) -> list[Any]:
    template = obj.get("template") or {}
    containers, images = containers_and_images(spec(template))
    return [name(obj), containers, images, labels_text((template.get("metadata") or {}).get("labels"))]


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(rows: list[str] | None) -> str:
    return ",".join(_MODES.get(row, row) for row in rows or [])


def _volume(obj: Object) -> list[Any]:
    claim = spec(obj).get("claimRef")
    return [
        name(obj),
        (spec(obj).get("capacity") or {}).get("storage", "0"),
        _modes(spec(obj).get("accessModes")),
        spec(obj).get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        _class(obj),
        spec(obj).get("volumeAttributesClassName", UNSET),
        status(obj).get("reason", ""),
        age(obj),
        spec(obj).get("volumeMode") or UNSET,
    ]


def _claim(obj: Object) -> list[Any]:
    bound = bool(spec(obj).get("volumeName"))
    return [
        name(obj),
        _phase(obj),
        spec(obj).get("volumeName", ""),
        (status(obj).get("capacity") or {}).get("storage", "0") if bound else "",
        _modes(status(obj).get("accessModes")) if bound else "",
        _class(obj),
        spec(obj).get("volumeAttributesClassName", UNSET),
        age(obj),
        spec(obj).get("volumeMode") or UNSET,
    ]


def _phase(obj: Object) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else status(obj).get("phase", "")


def _class(obj: Object) -> str:
    """The storage class of a claim or a volume; an older annotation takes precedence."""
    notes: dict[str, str] = obj["metadata"].get("annotations") or {}
    stored: str = spec(obj).get("storageClassName", "")
    return notes.get("volume.beta.kubernetes.io/storage-class", stored)


def _plain(*names: str) -> tuple[Column, ...]:
    return tuple(Column(word, description=f"{word} of the object.") for word in names)


LAYOUTS: dict[tuple[str, str], Layout] = {
    ("", "nodes"): _NODES,
    ("", "resourcequotas"): _QUOTAS,
    ("", "services"): _SERVICES,
    ("", "events"): _EVENTS,
    ("events.k8s.io", "events"): _EVENTS,
    ("", "endpoints"): Layout(
        (NAME, Column("Endpoints", description="Addresses and ports behind it."), AGE), _endpoints
    ),
    ("", "namespaces"): Layout((NAME, Column("Status", description="The status of the namespace"), AGE), _namespace),
    ("", "configmaps"): Layout(
        (
            NAME,
            Column(
                "Data",
                description="Data contains the configuration data. Each key must consist of alphanumeric characters, "
                "'-', '_' or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys "
                "stored in Data must not overlap with the keys in the BinaryData field, this is enforced during "
                "validation process.",
            ),
            AGE,
        ),
        _config_map,
    ),
    ("", "secrets"): Layout((NAME, *_plain("Type", "Data"), AGE), _secret),
    ("", "serviceaccounts"): Layout((NAME, AGE), _service_account),
    ("", "podtemplates"): Layout((NAME, *_plain("Containers", "Images", "Pod Labels")), _pod_template),
    ("", "persistentvolumes"): Layout(
        (
            NAME,
            *_plain(
                "Capacity",
                "Access Modes",
                "Reclaim Policy",
                "Status",
                "Claim",
                "StorageClass",
                "VolumeAttributesClass",
                "Reason",
            ),
            AGE,
            wide("VolumeMode", "VolumeMode of the object."),
        ),
        _volume,
    ),
    ("", "persistentvolumeclaims"): Layout(
        (
            NAME,
            *_plain("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
            AGE,
            wide("VolumeMode", "VolumeMode of the object."),
        ),
        _claim,
    ),
}
