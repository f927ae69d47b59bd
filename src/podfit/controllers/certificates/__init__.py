"""Approves and signs the certificate requests of joining nodes."""

from podfit.controllers.certificates.controller import CertificatesController

__all__ = ["CertificatesController"]
