"""A self-signed serving certificate, created by a separate process.

A separate process keeps the cryptography library, an eighth of the memory of an agent, out of the process that serves.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import NamedTuple


class SelfSigned(NamedTuple):
    """A certificate and its key, both PEM."""

    cert: bytes
    key: bytes


async def self_signed(name: str, names: Sequence[str]) -> SelfSigned:
    command = (sys.executable, "-m", __name__, name, *names)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise OSError(f"the certificate of {name} could not be made")
    made = json.loads(output)
    return SelfSigned(made["cert"].encode(), made["key"].encode())


def main() -> None:
    from podfit.apiserver.auth.certs.certificates import Authority, new_authority
    from podfit.apiserver.auth.certs.pki import CERT_TTL

    name, *names = sys.argv[1:]
    pair = Authority.load(new_authority(f"{name}-ca", CERT_TTL)).server(name, names, CERT_TTL)
    print(json.dumps({"cert": pair.cert.decode(), "key": pair.key.decode()}))


if __name__ == "__main__":
    main()
