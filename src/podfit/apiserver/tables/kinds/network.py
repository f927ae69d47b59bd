"""Rows of networking.k8s.io and discovery.k8s.io."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Layout,
    age,
    name,
    selector_text,
    spec,
    status,
)

_MOST = 3
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"


def _few(words: list[str]) -> str:
    """Formats the first three values, and the number of the others."""
    shown = ",".join(words[:_MOST])
    return f"{shown} + {len(words) - _MOST} more..." if len(words) > _MOST else shown or UNSET


def _port(port: Object) -> str:
    shown = port["port"] if port.get("port") is not None else port.get("name")
    return "*" if shown is None else str(shown)


def _slice(obj: Object) -> list[Any]:
    ports = [_port(port) for port in obj.get("ports") or ()]
    addresses = [text for endpoint in obj.get("endpoints") or () for text in endpoint.get("addresses") or ()]
    return [name(obj), obj.get("addressType", ""), _few(ports), _few(addresses), age(obj)]


def _hosts(rules: list[Object]) -> str:
    hosts: list[str] = []
    more = False
    for rule in rules:
        more = more or len(hosts) == _MOST
        if not more and rule.get("host"):
            hosts.append(rule["host"])
    if not hosts:
        return "*"
    return ",".join(hosts) + (f" + {len(rules) - _MOST} more..." if more else "")


def _ingress(obj: Object) -> list[Any]:
    rows = (status(obj).get("loadBalancer") or {}).get("ingress") or ()
    address = ",".join(sorted({text for row in rows if (text := row.get("ip") or row.get("hostname") or "")}))
    ports = "80, 443" if spec(obj).get("tls") else "80"
    chosen = spec(obj).get("ingressClassName")
    return [
        name(obj),
        NONE if chosen is None else chosen,
        _hosts(spec(obj).get("rules") or []),
        address,
        ports,
        age(obj),
    ]


def _ingress_class(obj: Object) -> list[Any]:
    marked = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
    row, parameters = spec(obj).get("parameters"), NONE
    if row is not None:
        group = "" if row.get("apiGroup") is None else f".{row['apiGroup']}"
        parameters = f"{row.get('kind', '')}{group}/{row.get('name', '')}"
    return [name(obj) + (" (default)" if marked else ""), spec(obj).get("controller", ""), parameters, age(obj)]


def _policy(obj: Object) -> list[Any]:
    return [name(obj), selector_text(spec(obj).get("podSelector") or {}), age(obj)]


def _range(obj: Object) -> list[Any]:
    return [name(obj), ",".join(spec(obj).get("cidrs") or ()), age(obj)]


def _address(obj: Object) -> list[Any]:
    row, parent = spec(obj).get("parentRef"), NONE
    if row is not None:
        kind = ".".join(word for word in (row.get("resource", ""), row.get("group", "")) if word).lower()
        parent = "/".join(word for word in (kind, row.get("namespace", ""), row.get("name", "")) if word)
    return [name(obj), parent, age(obj)]


LAYOUTS: dict[tuple[str, str], Layout] = {
    ("discovery.k8s.io", "endpointslices"): Layout(
        (
            NAME,
            Column("AddressType", description="The kind of addresses in the slice."),
            Column("Ports", description="The ports every endpoint has."),
            Column("Endpoints", description="The addresses."),
            AGE,
        ),
        _slice,
    ),
    ("networking.k8s.io", "ingresses"): Layout(
        (
            NAME,
            Column("Class", description="The class of the controller that serves it."),
            Column("Hosts", description="Hosts that incoming requests are matched with."),
            Column("Address", description="Where the load balancer is reached."),
            Column("Ports", description="Ports of the TLS configurations."),
            AGE,
        ),
        _ingress,
    ),
    ("networking.k8s.io", "ingressclasses"): Layout(
        (
            NAME,
            Column("Controller", description="The controller that serves the class."),
            Column("Parameters", description="The object that configures the controller."),
            AGE,
        ),
        _ingress_class,
    ),
    ("networking.k8s.io", "networkpolicies"): Layout(
        (NAME, Column("Pod-Selector", description="The pods the policy applies to."), AGE), _policy
    ),
    ("networking.k8s.io", "servicecidrs"): Layout(
        (NAME, Column("CIDRs", description="Where addresses of Services come from."), AGE), _range
    ),
    # Kubernetes prints an age here although it declares no column for it.
    ("networking.k8s.io", "ipaddresses"): Layout(
        (NAME, Column("ParentRef", description="The object the address belongs to.")), _address
    ),
}
