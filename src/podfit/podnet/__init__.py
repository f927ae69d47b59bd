"""Pod networks: namespaces, addresses, a bridge with NAT, CNI plugins. Independent of the agent."""
