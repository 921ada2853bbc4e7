"""The consumer that is a member of a group, classic or of the new protocol (KIP-848)."""
