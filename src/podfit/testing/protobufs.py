"""Bodies in protobuf, as client-go encodes them."""

from __future__ import annotations


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def protobuf_pod(word: str) -> bytes:
    """A pod named p with one container and a resize policy for cpu, as client-go encodes it."""
    policy = field(1, b"cpu") + field(2, word.encode())
    container = field(1, b"c") + field(2, b"busybox") + field(23, policy)
    raw = field(1, field(1, b"p")) + field(2, field(2, container))
    return b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, raw)
