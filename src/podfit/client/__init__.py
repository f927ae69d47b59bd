"""The client of a Kubernetes API server, podfit's or any other, over HTTPS or within one process. Used by all
components."""

from podfit.client.cache import Cache
from podfit.client.recording.events import EventRecorder
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, HttpTransport, LocalTransport, Transport

__all__ = ["Cache", "Client", "ClientRequest", "EventRecorder", "HttpTransport", "LocalTransport", "Transport"]
