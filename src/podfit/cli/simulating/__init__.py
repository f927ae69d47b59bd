"""`podfit simulate`: reading scenarios and traces, and showing what came out."""
