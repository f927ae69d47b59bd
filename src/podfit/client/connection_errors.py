"""Error messages for a server that does not respond: the cause in kubectl's wording, not Python's exception text."""

from __future__ import annotations

import errno
import os
import ssl
from urllib.parse import urlsplit

import aiohttp

_TLS = "tls: failed to verify certificate"


def connection_error(server: str, error: Exception, request: str = "", timeout_s: float = 0.0) -> str:
    """`request` is the request that got no response; it is named only if the connection had been established."""
    host = urlsplit(server).netloc or server
    if _errno(error) == errno.ECONNREFUSED:
        return f"The connection to the server {host} was refused - did you specify the right host or port?"
    return f"Unable to connect to the server: {_cause(host, error, request, timeout_s)}"


def _cause(host: str, error: Exception, request: str, timeout_s: float) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"lookup {host.rpartition(':')[0] or host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"{_TLS}: {_verification(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return f"tls: handshake with {host} failed: {_tls_reason(error.os_error)}"
    if isinstance(error, aiohttp.InvalidURL):
        return f"{host!r} is not a valid address"
    if isinstance(error, TimeoutError):
        return f"{host} did not answer {request or 'in time'}" + (f" within {timeout_s:g}s" if timeout_s else "")
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
        return f"{host} closed the connection" + (f" during {request}" if request else "")
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{host} does not speak HTTP as a Kubernetes API server does"
    return _system_words(host, error)


def _errno(error: Exception) -> int | None:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.errno
    return error.errno if isinstance(error, OSError) else None


def _verification(error: Exception) -> str:
    """OpenSSL's error message without the file and line of Python's C code."""
    return error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else "not trusted"


def _tls_reason(error: OSError) -> str:
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else "the server does not speak TLS"


def _system_words(host: str, error: Exception) -> str:
    """The kernel's name for the error: Python's text may name a function of its library instead."""
    number = _errno(error)
    if number is None or number <= 0:
        return f"{host} closed the connection"
    file = getattr(error, "filename", None)
    return f"{file or host}: {os.strerror(number)}"
