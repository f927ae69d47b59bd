"""Reads a kubeconfig (or the in-cluster service account) and creates a transport from it."""

from __future__ import annotations

import base64
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from podfit.api.resize.dialects import NATIVE_HEADERS
from podfit.client.transport import HttpTransport, load_pair
from podfit.kit.web.addresses import bracketed

_MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class BadKubeconfig(ValueError):
    """The file is invalid; the message says why."""


@dataclass(frozen=True)
class Access:
    """The parameters of a connection to a server: its address, its CA, our credentials."""

    server: str
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    cert: bytes | None = None
    key: bytes | None = None
    token: str = ""
    token_file: str = ""
    server_name: str = ""

    def transport(self, user_agent: str = "podfit", timeout_s: float = 60.0) -> HttpTransport:
        """A transport to this server. It requests pods in native form, even from namespaces with an older dialect."""
        return HttpTransport(
            self.server,
            tls=self.tls() if self.server.startswith("https") else None,
            token=self.token,
            token_file=self.token_file,
            user_agent=user_agent,
            timeout_s=timeout_s,
            headers=NATIVE_HEADERS,
        )

    def tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cadata=self.ca.decode() if self.ca else None)
        except (ssl.SSLError, ValueError) as error:
            raise BadKubeconfig(f"certificate-authority of the server {self.server} is not a certificate") from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert and self.key:
            try:
                load_pair(context, self.cert, self.key)
            except ssl.SSLError as error:
                raise BadKubeconfig(
                    "client-certificate and client-key are not a certificate and the private key that belongs to it"
                ) from error
        return context


def load(path: str = "", context: str = "") -> Access:
    """Reads the access from `path`, $KUBECONFIG, the pod's service account or ~/.kube/config, in that order."""
    named = path or os.environ.get("KUBECONFIG", "").strip(":")
    if not named and (_MOUNTED / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return _in_cluster()
    files = _files(path)
    if len(files) == 1:
        return _access(_read(files[0]), files[0], context)
    there = [file for file in files if file.exists()] or files[:1]
    return _access(_merged(there), there[0], context)


def contexts(path: str = "") -> list[str]:
    """The context names that `load` accepts."""
    files = [file for file in _files(path) if file.exists()]
    return [str(entry["name"]) for entry in _merged(files)["contexts"] if isinstance(entry, dict) and "name" in entry]


def _files(path: str) -> list[Path]:
    chosen = [path] if path else [part for part in os.environ.get("KUBECONFIG", "").split(":") if part]
    return [Path(entry) for entry in chosen] or [Path.home() / ".kube" / "config"]


def _merged(files: list[Path]) -> dict[str, Any]:
    """Merges several files like kubectl: the first definition of an entry wins, and paths are relative to their own
    file.
    """
    whole: dict[str, Any] = {"current-context": "", "contexts": [], "clusters": [], "users": []}
    for file in files:
        document = _read(file)
        whole["current-context"] = whole["current-context"] or document.get("current-context")
        whole["contexts"] += document.get("contexts") or []
        for section, inner in (("clusters", "cluster"), ("users", "user")):
            for entry in document.get(section) or []:
                whole[section].append({**entry, inner: _anchored(entry.get(inner) or {}, file)})
    return whole


def _anchored(section: dict[str, Any], file: Path) -> dict[str, Any]:
    return {
        key: str(Path(file.absolute().parent, value)) if key in _PATHS and value else value
        for key, value in section.items()
    }


def _read(file: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(file.read_text())
    except OSError as error:
        raise BadKubeconfig(f"cannot read kubeconfig {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadKubeconfig(f"kubeconfig {file} is not a text file") from error
    except yaml.YAMLError as error:
        raise BadKubeconfig(f"kubeconfig {file} is not YAML{_place(error)}") from error
    if not isinstance(document, dict):
        raise BadKubeconfig(f"kubeconfig {file} is empty")
    return document


def _place(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    return f": line {mark.line + 1}: {problem}" if mark is not None else ""


def _in_cluster() -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = (_MOUNTED / "namespace").read_text().strip()
    return Access(
        f"https://{bracketed(host)}:{port}",
        namespace,
        (_MOUNTED / "ca.crt").read_bytes(),
        token_file=str(_MOUNTED / "token"),
    )


def _access(document: dict[str, Any], file: Path, context: str) -> Access:
    wanted = context or document.get("current-context") or ""
    chosen = _named(document, "contexts", wanted, "context", file)
    cluster = _named(document, "clusters", chosen.get("cluster", ""), "cluster", file)
    user = _named(document, "users", chosen["user"], "user", file) if chosen.get("user") else {}
    if not cluster.get("server"):
        raise BadKubeconfig(f"kubeconfig {file}: cluster {chosen.get('cluster')!r} has no server")
    if "exec" in user or "auth-provider" in user:
        raise BadKubeconfig(
            f"kubeconfig {file}: user {chosen.get('user')!r} logs in by a plugin; give a token or certificate"
        )
    return Access(
        cluster["server"],
        chosen.get("namespace") or "default",
        _bytes(cluster, "certificate-authority", file),
        bool(cluster.get("insecure-skip-tls-verify")),
        _bytes(user, "client-certificate", file),
        _bytes(user, "client-key", file),
        str(user.get("token") or ""),
        str(file.parent / user["tokenFile"]) if user.get("tokenFile") else "",
    )


def _named(document: dict[str, Any], section: str, name: str, inner: str, file: Path) -> dict[str, Any]:
    entries = [entry for entry in document.get(section) or [] if isinstance(entry, dict)]
    for entry in entries:
        if entry.get("name") == name:
            return entry.get(inner) or {}
    if not name:
        raise BadKubeconfig(f"kubeconfig {file}: no current-context is set; choose one with --context")
    known = ", ".join(str(entry.get("name")) for entry in entries)
    raise BadKubeconfig(f"kubeconfig {file}: no {inner} named {name!r}" + (f"; it has {known}" if known else ""))


def _bytes(section: dict[str, Any], field: str, file: Path) -> bytes | None:
    if section.get(f"{field}-data"):
        try:
            return base64.b64decode(section[f"{field}-data"])
        except (ValueError, TypeError) as error:
            raise BadKubeconfig(f"kubeconfig {file}: {field}-data is not base64") from error
    if section.get(field):
        path = Path(file.parent, section[field])
        try:
            return path.read_bytes()
        except OSError as error:
            raise BadKubeconfig(f"kubeconfig {file}: cannot read {field} {path}: {error.strerror}") from error
    return None
