"""Access to an API server, ours or any other, over HTTPS or in process."""

from podfit.client.cache import Cache
from podfit.client.recording.events import EventRecorder
from podfit.client.rest import Client
from podfit.client.transport import ClientRequest, HttpTransport, LocalTransport, Transport

__all__ = ["Cache", "Client", "ClientRequest", "EventRecorder", "HttpTransport", "LocalTransport", "Transport"]
