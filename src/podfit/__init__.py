"""podfit fits pods to their load, in place."""

__version__ = "0.1.0"
KUBERNETES = "v1.36.4"
"""The version whose API this is."""
FULL_VERSION = f"{KUBERNETES}+podfit-{__version__}"
"""The version that components report where Kubernetes' tools expect a Kubernetes version."""
