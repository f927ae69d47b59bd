"""Container images: references, registries, archives, and a store of images on disk. Used by podfit's own runtimes and
`podfit image`; independent of pods and nodes."""
