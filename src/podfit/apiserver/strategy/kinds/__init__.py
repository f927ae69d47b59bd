"""The strategies of all kinds but pods."""
