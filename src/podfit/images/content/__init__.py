"""The content of images: digests, manifests, layers, archives."""
