"""Commands for a cluster's access, images and machine."""
