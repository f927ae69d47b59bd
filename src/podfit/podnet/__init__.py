"""Pod networks: namespaces, addresses, a bridge with NAT, CNI plugins. Used by podfit's own runtimes; independent of
the agent."""
