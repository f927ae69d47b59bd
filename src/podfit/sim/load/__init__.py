"""What pods ask of their nodes, step by step, before anybody limits them."""
