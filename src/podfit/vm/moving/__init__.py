"""Moves running VMs between two runtimes, each with a libvirt daemon."""
