"""A pod's volumes, and the objects that they are made of."""
