"""CNI configurations: the first file counts, lists and single plugins alike, and an invalid one is reported
with the reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.podnet.attachment import PodRequest
from podfit.podnet.cni.chain import addresses, plugin_config, runtime_config
from podfit.podnet.cni.config import NetworkConfig, load, parse
from podfit.podnet.failures import NetworkFailure
from podfit.podnet.ports import PortMapping

LIST = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*LIST, "type", "x"]), inner, max_size=5)
    ),
)


def test_the_first_file_by_name_counts(tmp_path: Path) -> None:
    (tmp_path / "20-b.conflist").write_text(json.dumps({**LIST, "name": "second"}))
    (tmp_path / "10-a.conf").write_text(json.dumps({"cniVersion": "0.4.0", "name": "first", "type": "ptp"}))
    (tmp_path / "00-notes.txt").write_text("not a configuration")
    found = load(tmp_path)
    assert found is not None
    assert (found.name, found.version, [plugin["type"] for plugin in found.plugins]) == ("first", "0.4.0", ["ptp"])


def test_no_folder_and_an_empty_folder_have_no_configuration(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    assert load(tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("{}", "has no plugins"),
        (json.dumps({**LIST, "plugins": [{}]}), r'plugins\[0\] has no "type"'),
        (json.dumps({**LIST, "plugins": [{"type": "../sh"}]}), "not the name of a program"),
        (json.dumps({**LIST, "name": "a/b"}), "invalid network name"),
        (json.dumps({**LIST, "name": ""}), "has no name"),
        (json.dumps({**LIST, "cniVersion": "9.0.0"}), "not supported: the newest is 1.1.0"),
        (json.dumps({**LIST, "cniVersion": "one"}), "not of the form"),
        (json.dumps({**LIST, "disableCheck": 3}), "not true or false"),
    ],
)
def test_a_bad_configuration_is_named_with_the_reason(tmp_path: Path, content: str, why: str) -> None:
    (tmp_path / "10-bad.conflist").write_text(content)
    (tmp_path / "20-good.conflist").write_text(json.dumps(LIST))
    with pytest.raises(NetworkFailure, match=f"10-bad.conflist: .*{why}"):
        load(tmp_path)


@given(JSON, st.booleans())
def test_any_json_is_a_configuration_or_a_reason_against_it(body: Any, is_list: bool) -> None:
    try:
        found = parse(json.dumps(body).encode(), is_list)
    except ValueError as error:
        assert str(error)
    else:
        assert found.name and found.plugins and all(plugin["type"] for plugin in found.plugins)


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ({"cniVersion": "1.1.0"}, "1.1.0"),
        ({}, "0.1.0"),
        ({"cniVersion": "0.4.0", "cniVersions": ["0.3.1", "1.0.0", "1.1.0", "2.0.0"]}, "1.1.0"),
    ],
)
def test_the_newest_supported_version_is_used(body: dict[str, Any], version: str) -> None:
    given = {"name": "net", "plugins": [{"type": "bridge"}], **body}
    assert parse(json.dumps(given).encode(), True).version == version


def test_a_plugin_is_given_only_what_it_is_capable_of() -> None:
    wanted = runtime_config(
        PodRequest(
            "u", "default", "web", (PortMapping(8080, 80, "UDP", "10.0.0.1"),), {"kubernetes.io/egress-bandwidth": "1M"}
        )
    )
    assert wanted == {
        "portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "udp", "hostIP": "10.0.0.1"}],
        "bandwidth": {"egressRate": 1000000, "egressBurst": 2**32 - 1},
    }
    plugin = {"type": "portmap", "capabilities": {"portMappings": True, "bandwidth": False}, "snat": True}
    config = NetworkConfig("net", "1.0.0", (plugin,))
    assert config.capabilities == {"portMappings"}
    assert plugin_config(config, plugin, wanted, {"ips": []}) == {
        **plugin,
        "name": "net",
        "cniVersion": "1.0.0",
        "runtimeConfig": {"portMappings": wanted["portMappings"]},
        "prevResult": {"ips": []},
    }


def test_a_bandwidth_that_is_not_a_quantity_is_refused() -> None:
    with pytest.raises(NetworkFailure, match="ingress-bandwidth=fast"):
        runtime_config(PodRequest("u", "default", "web", (), {"kubernetes.io/ingress-bandwidth": "fast"}))


@pytest.mark.parametrize(
    ("result", "ips"),
    [
        ({"ips": [{"address": "10.1.0.5/24"}, {"address": "fd00::5/64"}]}, ("10.1.0.5", "fd00::5")),
        ({"ip4": {"ip": "10.1.0.5/24"}, "ip6": {"ip": "fd00::5/64"}}, ("10.1.0.5", "fd00::5")),
    ],
)
def test_addresses_are_read_from_results_of_every_version(result: dict[str, Any], ips: tuple[str, ...]) -> None:
    assert addresses(result) == ips


@pytest.mark.parametrize("result", [{}, {"ips": []}, {"ips": [{"address": "nowhere"}]}])
def test_a_result_without_an_address_is_an_error(result: dict[str, Any]) -> None:
    with pytest.raises(NetworkFailure):
        addresses(result)
