"""What a pod asks for and names: resources, placement, references, virtual machines and their migration."""
