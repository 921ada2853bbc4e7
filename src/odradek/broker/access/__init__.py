"""Who a client is and what it may do: tokens, keys of listeners and issuers, and ACLs."""
