"""SASL: authenticates the client of one connection (KIP-12, KIP-43, KIP-84, KIP-152, KIP-368).

`authenticator` decides which requests a connection may send, and keeps the result. `plain` and
`scram` are the server's sides of the mechanisms. `scram_keys` computes the keys of SCRAM
credentials. `client` is the client's side, for connections to brokers and to other nodes. All of
them perform no IO: the caller passes the tokens, the time and random numbers.
"""
