"""The phases of a pass over a pod, which `agent.loop` runs in order: each is a function of one context, in a file of
its own."""
