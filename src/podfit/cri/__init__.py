"""The Container Runtime Interface (CRI) v1: its messages, and its client and server over gRPC.

`api.proto` defines the messages and calls; `api_pb2` is compiled from it (scripts/compile-protos). `services` creates
the callables of a client and the handlers of a server from the compiled descriptors. Independent of pods.
"""

from .client import BadEndpoint, CriClient, CriError

__all__ = ["BadEndpoint", "CriClient", "CriError"]
