"""Makes a meter in another process reachable for an API server, through a Service that the APIService names.

An address that other machines reach is in an EndpointSlice of the Service (and in Endpoints, which API servers before
1.33 read). A name, or an address of the machine itself, is the Service's external name.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from podfit.api.objects import Object
from podfit.api.registry.kinds import Kind, kind_named
from podfit.api.status import ApiError
from podfit.client.rest import Client

SERVICE, ENDPOINTS, SLICE = kind_named("Service"), kind_named("Endpoints"), kind_named("EndpointSlice")
_PORT = 443
_PORT_NAME = "https"


@dataclass(frozen=True)
class Place:
    """Host and port of a server, and the Service that represents it."""

    host: str
    port: int
    name: str = "podfit-meter"
    namespace: str = "kube-system"

    @classmethod
    def of(cls, url: str) -> Place:
        """Parses the URL of a server. Raises ValueError unless it is an https URL without a path."""
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(f"{url!r} is not https://HOST[:PORT]")
        return cls(parts.hostname, parts.port or _PORT)

    @property
    def routable(self) -> bool:
        """Whether EndpointSlices may contain the host: it must be an address with the same meaning on every machine."""
        try:
            address = ip_address(self.host)
        except ValueError:
            return False
        return not (address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast)

    @property
    def service_port(self) -> int:
        return _PORT if self.routable else self.port


def service(place: Place) -> Object:
    port: Object = {"name": _PORT_NAME, "port": place.service_port, "protocol": "TCP", "targetPort": place.port}
    spec: Object = {"type": "ClusterIP", "ports": [port]}
    if not place.routable:
        spec = {"type": "ExternalName", "externalName": place.host, "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(place), "spec": spec}


def endpoints(place: Place) -> Object:
    meta = _meta(place) | {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}
    port = {"name": _PORT_NAME, "port": place.port, "protocol": "TCP"}
    subsets = [{"addresses": [{"ip": place.host}], "ports": [port]}]
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": subsets}


def endpoint_slice(place: Place) -> Object:
    labels = {"kubernetes.io/service-name": place.name, "endpointslice.kubernetes.io/managed-by": place.name}
    version = ip_address(place.host).version
    return {
        "apiVersion": SLICE.api_version,
        "kind": "EndpointSlice",
        "metadata": _meta(place, f"{place.name}-ipv{version}") | {"labels": labels},
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [place.host], "conditions": {"ready": True}}],
        "ports": [{"name": _PORT_NAME, "port": place.port, "protocol": "TCP"}],
    }


def _meta(place: Place, name: str = "") -> Object:
    return {"name": name or place.name, "namespace": place.namespace}


async def settle(client: Client, place: Place) -> None:
    """Creates the Service and its endpoints, or updates those that an earlier start created."""
    await _apply(client, SERVICE, service(place))
    if place.routable:
        await _apply(client, ENDPOINTS, endpoints(place))
        await _apply(client, SLICE, endpoint_slice(place))


async def _apply(client: Client, kind: Kind, body: Object) -> None:
    meta = body["metadata"]
    try:
        await client.create(kind, body)
    except ApiError as error:
        if error.code != 409:
            raise
        await client.patch(kind, meta["namespace"], meta["name"], body)
