"""A pass over a pod is a list of phases (`agent.loop`): each a function of one context, in a file of its own."""
