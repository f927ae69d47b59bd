"""VMs as libvirt domains: definition, life, hotplug, the guest's agent. Only this package imports libvirt."""
