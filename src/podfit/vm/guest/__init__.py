"""The parts of a guest: images, disks, cloud-init, shared folders."""
