"""A pod's host name, its hosts file and its resolver configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podfit.agent.config import AgentConfig
from podfit.agent.furnish import netfiles
from podfit.agent.runtimes.values import RuntimeFailure

CONFIG = AgentConfig("node1", Path("/nowhere"), cluster_dns=("10.96.0.10",))


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "resolv").write_text(
        "# ours\nsearch old\nnameserver 9.9.9.9\nsearch lan home\noptions timeout:1 ndots:1\n"
    )
    monkeypatch.setattr(netfiles, "_RESOLV", tmp_path / "resolv")


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web-0", "namespace": "shop"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({}, "web-0"),
        ({"hostname": "db"}, "db"),
        ({"hostname": "db", "subdomain": "data"}, "db"),
        ({"hostname": "db", "subdomain": "data", "setHostnameAsFQDN": True}, "db.data.shop.svc.cluster.local"),
        ({"hostNetwork": True, "hostname": "db"}, "node1"),
        ({"hostname": "db", "subdomain": "data", "hostnameOverride": "my.own.name"}, "my.own.name"),
    ],
)
def test_a_pod_has_its_own_name_or_the_hosts(spec: dict[str, Any], name: str) -> None:
    assert netfiles.hostname(pod(**spec), CONFIG) == name


def test_a_full_name_that_is_too_long_is_not_a_name() -> None:
    name = f"web-0.{'x' * 50}.shop.svc.cluster.local"
    why = f"FQDN {name} is too long (64 characters is the max, {len(name)} characters requested)"
    with pytest.raises(RuntimeFailure) as caught:
        netfiles.hostname(pod(subdomain="x" * 50, setHostnameAsFQDN=True), CONFIG)
    assert str(caught.value) == f"failed to construct FQDN from pod hostname and cluster domain, {why}"


def test_a_name_that_is_too_long_is_cut_where_it_may_end() -> None:
    long = {"metadata": {"name": "a" * 62 + "-b"}, "spec": {}}
    assert netfiles.hostname(long, CONFIG) == "a" * 62


def test_a_pod_finds_its_own_name_and_its_aliases() -> None:
    aliases = [{"ip": "1.2.3.4", "hostnames": ["foo.local", "bar.local"]}]
    text = netfiles.etc_hosts(pod(subdomain="data", hostAliases=aliases), CONFIG, "10.0.0.7")
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert "\n10.0.0.7\tweb-0.data.shop.svc.cluster.local\tweb-0\n" in text
    assert text.endswith("\n# Entries added by HostAliases.\n1.2.3.4\tfoo.local\tbar.local\n")
    assert "\n10.0.0.7\tweb-0\n" in netfiles.etc_hosts(pod(), CONFIG, "10.0.0.7")
    own = pod(subdomain="data", hostnameOverride="my.own")
    assert "\n10.0.0.7\tmy.own\n" in netfiles.etc_hosts(own, CONFIG, "10.0.0.7")


def test_a_pod_on_the_hosts_network_sees_the_hosts_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts").write_text("10.1.1.1 gateway\n")
    monkeypatch.setattr(netfiles, "_HOSTS", tmp_path / "hosts")
    text = netfiles.etc_hosts(pod(hostNetwork=True), CONFIG, "10.0.0.7")
    assert text == "# Kubernetes-managed hosts file (host network).\n10.1.1.1 gateway\n"


def test_names_are_resolved_by_the_clusters_server() -> None:
    text = netfiles.resolv_conf(pod(), CONFIG)
    assert text.splitlines() == [
        "nameserver 10.96.0.10",
        "search shop.svc.cluster.local svc.cluster.local cluster.local lan home",
        "options ndots:5",
    ]


HOSTS = ["nameserver 9.9.9.9", "search lan home", "options timeout:1 ndots:1"]


@pytest.mark.parametrize("spec", [{"hostNetwork": True}, {"dnsPolicy": "Default"}])
def test_other_pods_query_the_servers_of_the_host(spec: dict[str, Any]) -> None:
    assert netfiles.resolv_conf(pod(**spec), CONFIG).splitlines() == HOSTS


def test_a_pod_queries_the_servers_behind_a_resolver_on_the_hosts_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resolv").write_text("nameserver 127.0.0.53\nsearch lan\n")
    (tmp_path / "resolved").write_text("nameserver 9.9.9.9\nsearch lan\n")
    monkeypatch.setattr(netfiles, "_RESOLVED", tmp_path / "resolved")
    assert netfiles.resolv_conf(pod(dnsPolicy="Default"), CONFIG) == "nameserver 9.9.9.9\nsearch lan\n"
    in_the_hosts = netfiles.resolv_conf(pod(hostNetwork=True), CONFIG)
    assert in_the_hosts == "nameserver 127.0.0.53\nsearch lan\n", "there it can be asked"


def test_without_servers_on_the_host_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netfiles, "_RESOLV", Path("/nonexistent"))
    assert netfiles.resolv_conf(pod(dnsPolicy="Default"), CONFIG) == ""


EXTRA = {
    "nameservers": ["1.1.1.1", "10.96.0.10"],
    "searches": ["more", "lan"],
    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
}


@pytest.mark.parametrize(
    ("policy", "servers", "searches", "options"),
    [
        (
            "ClusterFirst",
            ["10.96.0.10", "1.1.1.1"],
            "shop.svc.cluster.local svc.cluster.local cluster.local lan home more",
            "edns0 ndots:2",
        ),
        ("Default", ["9.9.9.9", "1.1.1.1", "10.96.0.10"], "lan home more", "edns0 ndots:2 timeout:1"),
        ("None", ["1.1.1.1", "10.96.0.10"], "more lan", "edns0 ndots:2"),
    ],
)
def test_a_pods_dns_config_is_merged_with_its_dns_policy(
    policy: str, servers: list[str], searches: str, options: str
) -> None:
    lines = netfiles.resolv_conf(pod(dnsPolicy=policy, dnsConfig=EXTRA), CONFIG).splitlines()
    assert lines[:-2] == [f"nameserver {server}" for server in servers]
    assert lines[-2] == f"search {searches}"
    name, *given = lines[-1].split()
    assert (name, " ".join(sorted(given))) == ("options", options)
