"""The signing files of `podfit controllers`, with kube-controller-manager's option names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from podfit.apiserver.auth.certs.signing import Signer

SigningCert = Annotated[
    Path | None,
    typer.Option(
        "--cluster-signing-cert-file", help="The certificate of the CA that signs CertificateSigningRequests (PEM)."
    ),
]
SigningKey = Annotated[
    Path | None, typer.Option("--cluster-signing-key-file", help="The private key of that CA (PEM).")
]
RootCa = Annotated[
    Path | None,
    typer.Option(
        "--root-ca-file", help="The CA certificate to publish as kube-root-ca.crt; default: the kubeconfig's."
    ),
]
RotateCertificates = Annotated[
    bool,
    typer.Option(
        "--rotate-certificates/--no-rotate-certificates",
        help="Renew the node's client certificate before it expires.",
    ),
]
RotateServing = Annotated[
    bool,
    typer.Option(
        "--rotate-server-certificates", help="Request the node's serving certificate from the cluster's signer."
    ),
]


def signer_of(cert: Path | None, key: Path | None) -> Signer | None:
    """The signer for these files; None if both are missing: then requests are approved here, and signed elsewhere."""
    from podfit.compose import BadSetting

    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise BadSetting("--cluster-signing-cert-file and --cluster-signing-key-file go together")
    from podfit.apiserver.auth.certs.signing import Signer

    try:
        return Signer.from_files(cert, key)
    except (OSError, ValueError) as error:
        raise BadSetting(f"--cluster-signing-cert-file {cert}, --cluster-signing-key-file {key}: {error}") from error


def certificate_in(path: Path | None, flag: str) -> bytes | None:
    from podfit.compose import BadSetting

    if path is None:
        return None
    try:
        ca = path.read_bytes()
    except OSError as error:
        raise BadSetting(f"{flag} {path}: {error.strerror}") from error
    if b"-----BEGIN CERTIFICATE-----" not in ca:
        raise BadSetting(f"{flag} {path} contains no certificate")
    return ca
