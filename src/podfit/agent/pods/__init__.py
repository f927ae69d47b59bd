"""The agent's state of its pods: a record for each, the ledger on disk, the story, Events, and the queue of passes."""
