"""The parts of `podfit simulate`: reads scenarios and traces, and shows the results."""
