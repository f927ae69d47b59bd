"""Networks of pods: namespaces, addresses, a bridge with NAT, CNI plugins. Knows nothing of the agent."""
