"""The rules of Kubernetes' built-in signers for subject, names and usages. Pure.

An approved request is still checked: a user who may approve for one signer must not get certificates of another. The
messages are those of Kubernetes and appear in the request's condition Failed.
"""

from __future__ import annotations

from collections.abc import Collection

from cryptography import x509
from cryptography.x509.oid import NameOID
from msgspec import Struct

NODE_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
CLIENT = "kubernetes.io/kube-apiserver-client"
SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = frozenset({NODE_CLIENT, CLIENT, SERVING})

NODES, NODE_PREFIX = "system:nodes", "system:node:"
_SIGNATURE, _ENCIPHERMENT = "digital signature", "key encipherment"
_CLIENT_AUTH, _SERVER_AUTH = "client auth", "server auth"


class SigningRequest(Struct, frozen=True):
    """The content of a signing request."""

    common_name: str = ""
    organizations: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def read_request(pem: bytes) -> SigningRequest:
    """Parses a signing request. Raises ValueError if it is not one."""
    request = x509.load_pem_x509_csr(pem)
    try:
        names: x509.SubjectAlternativeName | list[x509.GeneralName]
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = []
    except x509.DuplicateExtension as error:
        raise ValueError(str(error)) from error

    def subject(oid: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(str(attribute.value) for attribute in request.subject.get_attributes_for_oid(oid))

    def named(kind: type[x509.GeneralName]) -> tuple[str, ...]:
        return tuple(str(name.value) for name in names if isinstance(name, kind))

    # Of several common names the last one counts, as in Go; the certificate gets only that one.
    return SigningRequest(
        (subject(NameOID.COMMON_NAME) or ("",))[-1],
        subject(NameOID.ORGANIZATION_NAME),
        named(x509.DNSName),
        named(x509.IPAddress),
        named(x509.RFC822Name),
        named(x509.UniformResourceIdentifier),
    )


def objection(signer: str, request: SigningRequest, usages: Collection[str]) -> str:
    """The reason why the signer rejects the request; "" if it signs it."""
    if signer == NODE_CLIENT:
        return _node_client(request, usages)
    if signer == SERVING:
        return _serving(request, usages)
    return _client(usages)


def _node_client(request: SigningRequest, usages: Collection[str]) -> str:
    if request.organizations != (NODES,):
        return "subject organization is not system:nodes"
    for word, found in (("DNS", request.dns), ("Email", request.emails), ("IP", request.ips), ("URI", request.uris)):
        if found:
            return f"{word} subjectAltNames are not allowed"
    if not request.common_name.startswith(NODE_PREFIX):
        return "subject common name does not begin with system:node:"
    return _exactly(usages, _CLIENT_AUTH)


def _serving(request: SigningRequest, usages: Collection[str]) -> str:
    if request.organizations != (NODES,):
        return "subject organization is not system:nodes"
    if not request.dns and not request.ips:
        return "DNS or IP subjectAltName is required"
    for word, found in (("Email", request.emails), ("URI", request.uris)):
        if found:
            return f"{word} subjectAltNames are not allowed"
    if refused := _exactly(usages, _SERVER_AUTH):
        return refused
    return "" if request.common_name.startswith(NODE_PREFIX) else "subject common name does not begin with system:node:"


def _exactly(usages: Collection[str], purpose: str) -> str:
    """Key encipherment is for RSA keys only, so it may be omitted."""
    required = {_SIGNATURE, _ENCIPHERMENT, purpose}
    if set(usages) in (required, required - {_ENCIPHERMENT}):
        return ""
    return f"usages did not match [{' '.join(sorted(required))}]"


def _client(usages: Collection[str]) -> str:
    for usage in usages:
        if usage not in (_SIGNATURE, _ENCIPHERMENT, _CLIENT_AUTH):
            return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT_AUTH in usages else f"missing required usage for client certificate: {_CLIENT_AUTH}"
