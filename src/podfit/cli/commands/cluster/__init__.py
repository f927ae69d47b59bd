"""The commands about a cluster and its access, images and machine."""
