"""Properties of a pod: resources, placement, references, virtual machines and their migration."""
