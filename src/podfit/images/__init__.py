"""Container images: references, registries, archives, and a store of images on disk. Knows nothing of pods or nodes."""
