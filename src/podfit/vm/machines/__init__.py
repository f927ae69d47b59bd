"""VMs as libvirt domains: definition, lifecycle, hotplug, the guest agent. Only this package and `moving.departures`
import libvirt."""
