"""The simulated cluster: pods and nodes as arrays, and the phases of a step that change them."""
