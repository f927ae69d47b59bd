"""Builds a pod's files for name resolution: hostname, /etc/hosts and resolv.conf, as written by a kubelet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from podfit.agent.config import AgentConfig
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object

_HOSTS = Path("/etc/hosts")
_RESOLV = Path("/etc/resolv.conf")
_RESOLVED = Path("/run/systemd/resolve/resolv.conf")
"""The servers behind systemd-resolved, whose own address is on the host's loopback."""
_LONGEST_NAME, _LONGEST_FULL_NAME = 63, 64
_KNOWN = (
    ("127.0.0.1", "localhost"),
    ("::1", "localhost ip6-localhost ip6-loopback"),
    ("fe00::0", "ip6-localnet"),
    ("fe00::0", "ip6-mcastprefix"),
    ("fe00::1", "ip6-allnodes"),
    ("fe00::2", "ip6-allrouters"),
)


def full_name(pod: Object, config: AgentConfig) -> tuple[str, str]:
    """(hostname, domain) of a pod that has its own; the domain is "" unless the pod is in a subdomain."""
    spec, meta = pod["spec"], pod["metadata"]
    if spec.get("hostnameOverride"):
        return str(spec["hostnameOverride"]), ""
    name = str(spec.get("hostname") or meta["name"])[:_LONGEST_NAME].rstrip("-.")
    if not spec.get("subdomain"):
        return name, ""
    return name, f"{spec['subdomain']}.{meta.get('namespace') or 'default'}.svc.{config.cluster_domain}"


def hostname(pod: Object, config: AgentConfig) -> str:
    if pod["spec"].get("hostNetwork"):
        return config.host[:_LONGEST_NAME]
    name, domain = full_name(pod, config)
    if not domain or not pod["spec"].get("setHostnameAsFQDN"):
        return name
    full = f"{name}.{domain}"
    if len(full) > _LONGEST_FULL_NAME:
        why = f"is too long ({_LONGEST_FULL_NAME} characters is the max, {len(full)} characters requested)"
        raise RuntimeFailure(f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} {why}")
    return full


def etc_hosts(pod: Object, config: AgentConfig, ip: str) -> str:
    if pod["spec"].get("hostNetwork"):
        text = "# Kubernetes-managed hosts file (host network).\n" + _of_the_host()
    else:
        name, domain = full_name(pod, config)
        rows = [*_KNOWN, (ip, f"{name}.{domain}\t{name}" if domain else name)]
        text = "# Kubernetes-managed hosts file.\n" + "".join(f"{address}\t{names}\n" for address, names in rows)
    aliases = pod["spec"].get("hostAliases") or ()
    if aliases:
        text += "\n# Entries added by HostAliases.\n"
        text += "".join(f"{alias['ip']}\t" + "\t".join(alias.get("hostnames") or ()) + "\n" for alias in aliases)
    return text


def _of_the_host() -> str:
    try:
        return _HOSTS.read_text()
    except OSError:
        return ""


@dataclass(slots=True)
class _Resolver:
    servers: list[str] = field(default_factory=list)
    searches: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        lines = [f"nameserver {address}" for address in self.servers]
        lines += [f"search {' '.join(self.searches)}"] if self.searches else []
        lines += [f"options {' '.join(self.options)}"] if self.options else []
        return "".join(f"{line}\n" for line in lines)


def resolv_conf(pod: Object, config: AgentConfig) -> str:
    """The pod's resolv.conf; "" if the host has none and the pod adds nothing."""
    spec = pod["spec"]
    host = _resolver_of_the_host(bool(spec.get("hostNetwork")))
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    extra = spec.get("dnsConfig") or {}
    clustered = (policy == "ClusterFirst" and not spec.get("hostNetwork")) or policy == "ClusterFirstWithHostNet"
    if clustered and config.cluster_dns:
        domain, namespace = config.cluster_domain, pod["metadata"].get("namespace") or "default"
        searches = [f"{namespace}.svc.{domain}", f"svc.{domain}", domain, *host.searches]
        base = _Resolver(list(config.cluster_dns), searches, ["ndots:5"])
    elif policy == "None":
        base = _Resolver()
    else:
        base = host
    return _merged(base, extra).text


def _merged(base: _Resolver, extra: Object) -> _Resolver:
    """Merges settings: the pod's entries come last and only once; options of the same name replace others."""
    options = {option.partition(":")[0]: option for option in base.options}
    for option in extra.get("options") or ():
        options[option["name"]] = option["name"] + (f":{option['value']}" if option.get("value") else "")
    return _Resolver(
        list(dict.fromkeys([*base.servers, *(extra.get("nameservers") or ())])),
        list(dict.fromkeys([*base.searches, *(extra.get("searches") or ())])),
        list(options.values()),
    )


def _resolver_of_the_host(host_network: bool) -> _Resolver:
    """The host's resolver settings. A pod with its own network cannot reach a server on the host's loopback, so the
    servers behind it are used."""
    found = _read(_RESOLV)
    if host_network or not found.servers or not all(_is_loopback(server) for server in found.servers):
        return found
    behind = _read(_RESOLVED)
    return behind if behind.servers else found


def _is_loopback(server: str) -> bool:
    return server.startswith("127.") or server == "::1"


def _read(file: Path) -> _Resolver:
    found = _Resolver()
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return found
    for word, *rest in (line.split() for line in lines if line.strip()):
        if word == "nameserver":
            found.servers += rest[:1]
        elif word == "search":
            # The last line wins, as in the resolver itself.
            found.searches = rest
        elif word == "options":
            found.options += rest
    return found
