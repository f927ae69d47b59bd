"""Container images: references, registries, archives, and a store of images on disk. Independent of pods and nodes."""
