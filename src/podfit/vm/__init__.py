"""A CRI runtime whose containers are virtual machines on libvirt: `podfit vm-runtime`.

`decide` holds the pure decisions about sizes, `machines` the libvirt domains, `records` the runtime's own metadata,
`server` the CRI calls. The node agent reaches it only through its socket.
"""

LOCK = "vm-runtime.lock"
"""A file in the runtime's folder that names the process holding it."""
