"""The pages of `podfit describe`: what is gathered from the API and the node, and how it is laid out."""
