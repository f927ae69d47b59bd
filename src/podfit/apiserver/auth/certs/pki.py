"""Creates and stores the server's certificates in one folder: two CAs, the serving certificate, those of the
administrator and the components, and the key that signs service-account tokens.

Files are readable by their owner only. Existing ones are used; those that are missing, about to expire or lack a name
are created.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from podfit.apiserver.auth.certs.certificates import Authority, Pair, key_pem, names_of, new_authority, new_key
from podfit.apiserver.auth.certs.signing import Signer
from podfit.kit.files.atomicfile import write_atomic

CA_TTL = timedelta(days=3650)
CERT_TTL = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
FRONT_PROXY_CA = "podfit-front-proxy-ca"
FRONT_PROXY_CLIENT = "front-proxy-client"
_X509_NO_CHECK_TIME = 0x200000
SERVICE_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)


class DamagedKeys(Exception):
    """A CA or the signing key cannot be read. It is never replaced, because every certificate and token depends on
    it.
    """

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} is damaged ({why}); nothing was changed. Restore it from a copy of the data directory, or move "
            f"the folder {path.parent} away to have new keys made: every kubeconfig and token is void then"
        )


class Pki:
    def __init__(self, folder: Path, names: Sequence[str] = ()) -> None:
        """Opens the folder and creates what is missing. `names`: additional host names and addresses of the server."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        self.folder = folder
        self.authority = self._authority("ca", "podfit-ca")
        self.front_proxy = self._authority("front-proxy-ca", FRONT_PROXY_CA)
        self._serving(names)
        self._client(self.authority, "admin", "kubernetes-admin", ("system:masters",))
        self._client(self.front_proxy, "front-proxy-client", FRONT_PROXY_CLIENT, ())
        self.signing_key = self._signing_key()

    @property
    def ca(self) -> bytes:
        return self.authority.pem

    @property
    def admin(self) -> Pair:
        return self._read("admin")

    @property
    def serving(self) -> Pair:
        return self._read("apiserver")

    @property
    def front_proxy_client(self) -> Pair:
        """The client certificate for requests proxied to an aggregated server."""
        return self._read("front-proxy-client")

    def component(self, name: str) -> Pair:
        """The stored certificate of a control-plane component, e.g. `system:kube-scheduler`."""
        return self._client(self.authority, name.replace(":", "-"), name, ())

    def issue_client_cert(self, name: str, organizations: Sequence[str] = (), ttl: timedelta = CERT_TTL) -> Pair:
        """A new client certificate, which is not stored."""
        return self.authority.client(name, organizations, ttl)

    @property
    def signer(self) -> Signer:
        """Signs approved certificate signing requests."""
        return Signer(self.authority, CERT_TTL)

    def node(self, name: str, ttl: timedelta = CERT_TTL) -> Pair:
        return self.issue_client_cert(f"system:node:{name}", ("system:nodes",), ttl)

    def node_serving(self, name: str, names: Sequence[str], ttl: timedelta = CERT_TTL) -> Pair:
        """The serving certificate of a node's agent."""
        return self.authority.server(f"system:node:{name}", (name, *names), ttl, ("system:nodes",))

    def server_tls(self) -> ssl.SSLContext:
        """The TLS context of the API server's socket: clients may present a certificate of either CA.

        Expired client certificates reach the authenticator, which responds with 401 as in Kubernetes; otherwise the
        handshake would fail.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.folder / "apiserver.crt", self.folder / "apiserver.key")
        context.load_verify_locations(cadata=(self.ca + self.front_proxy.pem).decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.verify_flags |= ssl.VerifyFlags(_X509_NO_CHECK_TIME)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _authority(self, file: str, name: str) -> Authority:
        cert, key = self.folder / f"{file}.crt", self.folder / f"{file}.key"
        if not cert.exists():
            self._write(file, new_authority(name, CA_TTL))
        if not key.exists():
            raise DamagedKeys(key, "it is missing")
        try:
            found = Authority.load(self._read(file))
        except ValueError as error:
            raise DamagedKeys(key if _is_certificate(cert.read_bytes()) else cert, _reason(error)) from error
        if not found.matches:
            raise DamagedKeys(key, f"it does not belong to {cert.name}")
        return found

    def _serving(self, more: Sequence[str]) -> None:
        host = socket.gethostname()
        names = list(dict.fromkeys(["localhost", "127.0.0.1", "::1", host, *SERVICE_NAMES, *more]))
        if not self._good("apiserver", self.authority) or not set(names) <= names_of(self._read("apiserver").cert):
            self._write("apiserver", self.authority.server("kube-apiserver", names, CERT_TTL))

    def _client(self, authority: Authority, file: str, name: str, organizations: Sequence[str]) -> Pair:
        if not self._good(file, authority):
            self._write(file, authority.client(name, organizations, CERT_TTL))
        return self._read(file)

    def _good(self, file: str, authority: Authority) -> bool:
        path = self.folder / f"{file}.crt"
        if not path.exists() or not (self.folder / f"{file}.key").exists():
            return False
        try:
            cert = x509.load_pem_x509_certificate(path.read_bytes())
            key = serialization.load_pem_private_key((self.folder / f"{file}.key").read_bytes(), None)
            cert.verify_directly_issued_by(authority.cert)
        except (ValueError, TypeError, InvalidSignature):
            # The certificate is damaged or of another CA, and can be reissued.
            return False
        if key.public_key() != cert.public_key():
            return False
        return cert.not_valid_after_utc > datetime.now(UTC) + _RENEW_BEFORE

    def _signing_key(self) -> ec.EllipticCurvePrivateKey:
        path = self.folder / "sa.key"
        if not path.exists():
            write_atomic(path, key_pem(new_key()))
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), None)
        except ValueError as error:
            raise DamagedKeys(path, _reason(error)) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise DamagedKeys(path, "it holds no elliptic curve key")
        return key

    def _read(self, file: str) -> Pair:
        return Pair((self.folder / f"{file}.crt").read_bytes(), (self.folder / f"{file}.key").read_bytes())

    def _write(self, file: str, pair: Pair) -> None:
        # The key is written first: a certificate without its key would look like a complete pair.
        write_atomic(self.folder / f"{file}.key", pair.key)
        write_atomic(self.folder / f"{file}.crt", pair.cert)


def _is_certificate(data: bytes) -> bool:
    try:
        x509.load_pem_x509_certificate(data)
    except ValueError:
        return False
    return True


def _reason(error: ValueError) -> str:
    """The first sentence of the library's message."""
    return str(error).partition(". ")[0].partition("\n")[0] or "it cannot be read"
