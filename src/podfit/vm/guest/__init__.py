"""What a guest is made from: images, disks, cloud-init, shared folders."""
