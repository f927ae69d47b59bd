"""The Container Runtime Interface (CRI) v1: its messages, and how to call or serve it over gRPC.

`api.proto` holds the messages and calls; `api_pb2` is compiled from it (scripts/compile-protos). `services` makes the
callables of a client and the handlers of a server from the compiled descriptors. Nothing here knows about pods.
"""

from .client import BadEndpoint, CriClient, CriError

__all__ = ["BadEndpoint", "CriClient", "CriError"]
