"""Usage of pods and containers, in the formats of its clients."""
