"""Pure decisions about a VM's size: values in, values out; no libvirt, no clock, no files."""
