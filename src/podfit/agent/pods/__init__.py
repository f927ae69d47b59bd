"""The agent's state of its pods: one record each, the ledger on disk, the story, Events, and the queue of passes."""
