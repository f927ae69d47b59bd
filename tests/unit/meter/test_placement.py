"""The Service of a meter: addresses are in an EndpointSlice, any other URL is an external name."""

from __future__ import annotations

import pytest

from podfit.meter.placement import Place, endpoint_slice, endpoints, service


@pytest.mark.parametrize(
    ("url", "routable"),
    [
        ("https://10.0.0.7:10443", True),
        ("https://[fd00::7]:10443", True),
        ("https://127.0.0.1:10443", False),
        ("https://[::1]:10443", False),
        ("https://169.254.1.1:10443", False),
        ("https://meter.example.com", False),
    ],
)
def test_an_address_reachable_by_others_is_in_an_endpoint_slice(url: str, routable: bool) -> None:
    assert Place.of(url).routable is routable


def test_a_slice_and_endpoints_hold_the_address_and_its_port() -> None:
    place = Place.of("https://[fd00::7]:10443")
    row = endpoint_slice(place)
    assert (row["addressType"], row["endpoints"][0]["addresses"], row["ports"][0]["port"]) == (
        "IPv6",
        ["fd00::7"],
        10443,
    )
    assert row["metadata"]["labels"]["kubernetes.io/service-name"] == service(place)["metadata"]["name"]
    assert endpoints(place)["subsets"][0]["addresses"] == [{"ip": "fd00::7"}]
    assert service(place)["spec"]["ports"][0]["port"] == place.service_port == 443


def test_a_name_becomes_the_external_name_with_its_own_port() -> None:
    place = Place.of("https://meter.example.com:8443")
    spec = service(place)["spec"]
    assert (spec["type"], spec["externalName"], place.service_port) == ("ExternalName", "meter.example.com", 8443)


@pytest.mark.parametrize("url", ["http://10.0.0.7", "https://", "10.0.0.7:443", "https://h/path", "https://h?x=1"])
def test_a_url_without_https_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="is not https"):
        Place.of(url)
