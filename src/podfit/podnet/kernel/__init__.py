"""The kernel's side of pod networks: links, bridges, namespaces, nftables."""
