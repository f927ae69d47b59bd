"""The files that tell a pod names: its hostname, /etc/hosts and resolv.conf, as a kubelet writes them."""

from __future__ import annotations

from pathlib import Path

from podfit.agent.config import AgentConfig
from podfit.agent.decide.states import Object

_HOSTS = Path("/etc/hosts")
_LONGEST_NAME = 63
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
    name = str(spec.get("hostname") or meta["name"])[:_LONGEST_NAME].rstrip("-.")
    if not spec.get("subdomain"):
        return name, ""
    return name, f"{spec['subdomain']}.{meta.get('namespace') or 'default'}.svc.{config.cluster_domain}"


def hostname(pod: Object, config: AgentConfig) -> str:
    if pod["spec"].get("hostNetwork"):
        return config.host[:_LONGEST_NAME]
    name, domain = full_name(pod, config)
    return f"{name}.{domain}" if domain and pod["spec"].get("setHostnameAsFQDN") else name


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
        text += "".join(f"{one['ip']}\t" + "\t".join(one.get("hostnames") or ()) + "\n" for one in aliases)
    return text


def _of_the_host() -> str:
    try:
        return _HOSTS.read_text()
    except OSError:
        return ""


def resolv_conf(pod: Object, config: AgentConfig) -> str:
    """ "" where the host's own is to be used."""
    spec = pod["spec"]
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    extra = spec.get("dnsConfig") or {}
    clustered = policy == "ClusterFirst" and not spec.get("hostNetwork")
    lines: list[str] = []
    if config.cluster_dns and (clustered or policy == "ClusterFirstWithHostNet"):
        lines += [f"nameserver {one}" for one in config.cluster_dns]
        domain, namespace = config.cluster_domain, pod["metadata"].get("namespace") or "default"
        lines.append(f"search {namespace}.svc.{domain} svc.{domain} {domain}")
        lines.append("options ndots:5")
    lines += [f"nameserver {one}" for one in extra.get("nameservers") or ()]
    if extra.get("searches"):
        lines.append("search " + " ".join(extra["searches"]))
    for option in extra.get("options") or ():
        lines.append(f"options {option['name']}" + (f":{option['value']}" if option.get("value") else ""))
    return "\n".join(lines) + "\n" if lines else ""
