"""The setup of a container of the process runtime: image, user, network, and its launch file."""
