"""SASL: authenticates the client of one connection (KIP-12, KIP-43, KIP-84, KIP-152, KIP-368).

`authenticator` decides which requests a connection may send, and keeps the result. `plain`, `scram`
and `oauth_bearer` are the server's sides of the mechanisms. `scram_keys` computes the keys of SCRAM
credentials. `gssapi` negotiates the last part of
GSSAPI, whose security contexts come from the Kerberos library. `jwt` validates access tokens with keys from `jwks`; `key_refresh` decides when these
keys are fetched; `unsecured_jwt` accepts tokens without signatures. `client` is the client's side, for connections to brokers and to other nodes. All of
them perform no IO: the caller passes the tokens, the time and random numbers.
"""
