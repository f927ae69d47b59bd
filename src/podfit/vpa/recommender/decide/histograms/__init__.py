"""The usage model: decaying histograms, aggregates and the estimates computed from them."""
