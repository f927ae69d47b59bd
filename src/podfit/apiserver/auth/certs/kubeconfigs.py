"""Writes the kubeconfigs of a cluster at every start: one for each component, with that component's identity."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from podfit.apiserver.auth.certs.certificates import Pair
from podfit.apiserver.auth.certs.pki import Pki
from podfit.kit.files.atomicfile import write_again


def write_kubeconfigs(
    folder: Path, pki: Pki, server: str, context: str, parts: Mapping[str, str], nodes: Iterable[str]
) -> None:
    """Writes the kubeconfigs to `folder`. `parts`: the user of each component of the control plane."""
    write = partial(write_kubeconfig, server=server, ca=pki.ca, cluster=context)
    write(folder / "admin.kubeconfig", pair=pki.admin)
    for part, user in parts.items():
        write(folder / f"{part}.kubeconfig", pair=pki.component(user), user=user)
    for name in nodes:
        write(folder / f"node-{name}.kubeconfig", pair=pki.node(name), user=f"system:node:{name}")


def write_kubeconfig(
    path: Path,
    server: str,
    ca: bytes | None,
    *,
    pair: Pair | None = None,
    token: str = "",
    user: str = "admin",
    cluster: str = "podfit",
    namespace: str = "",
) -> None:
    """Writes a self-contained kubeconfig, readable by its owner only. The format is JSON, which is valid YAML."""
    who = {"token": token} if token else {}
    if pair is not None:
        who = {"client-certificate-data": _b64(pair.cert), "client-key-data": _b64(pair.key)}
    where = {"server": server, **({"certificate-authority-data": _b64(ca)} if ca else {})}
    context = {"cluster": cluster, "user": user, **({"namespace": namespace} if namespace else {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": where}],
        "users": [{"name": user, "user": who}],
        "contexts": [{"name": cluster, "context": context}],
        "current-context": cluster,
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_again(path, json.dumps(document, indent=2).encode() + b"\n")


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
