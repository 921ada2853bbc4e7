"""OAuth bearer tokens over SASL."""

SETTINGS = """
[honoured]
sasl.oauthbearer.scope.claim.name  string  = scope  low
    Claim of a token that has the scope. Scopes have no effect.
sasl.oauthbearer.sub.claim.name  string  = sub  low
    Claim of a token that names the user.
sasl.oauthbearer.jwks.endpoint.url  string  medium
    URL of the keys that verify tokens: https, http, or file.
sasl.oauthbearer.jwks.endpoint.refresh.ms  long  = 3600000  low
    How often the keys that verify tokens are fetched again. A file is read again when it has changed.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms  long  = 100  low
    First pause before the fetch of these keys is retried.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms  long  = 10000  low
    Maximum pause before the fetch of these keys is retried.
sasl.oauthbearer.clock.skew.seconds  int  = 30  low
    Tolerated difference between clocks.
sasl.oauthbearer.expected.audience  list  = ""  distinct  high
    Audiences of which a token must have one. Required if signed tokens are verified.
sasl.oauthbearer.allow.unverified.audience  boolean  = false  medium
    Whether `sasl.oauthbearer.expected.audience` may be missing. Then a token may have any audience.
sasl.oauthbearer.expected.issuer  string  high
    The issuer that a token must have. Required if signed tokens are verified.
sasl.oauthbearer.allow.unverified.issuer  boolean  = false  medium
    Whether `sasl.oauthbearer.expected.issuer` may be missing. Then a token may have any issuer.
sasl.oauthbearer.jwt.validator.class  class  = org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator  medium
    How tokens are checked. The only other supported value is `org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator`, with the same effect.

sasl.oauthbearer.token.endpoint.url  string  medium
    URL that this node gets tokens from for connections to other nodes: of an OAuth server (https, http), or of a file with a token.
sasl.oauthbearer.scope  string  medium
    Scope to request.
sasl.oauthbearer.jwt.retriever.class  class  = org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever  medium
    How tokens are fetched. The only other supported values are `org.apache.kafka.common.security.oauthbearer.FileJwtRetriever` and `ClientCredentialsJwtRetriever` in the same package, with the same effect.
sasl.oauthbearer.client.credentials.client.id  string  medium
    Client id for the client credentials grant.
sasl.oauthbearer.client.credentials.client.secret  password  medium
    Client secret for the client credentials grant.

[unsupported: a client shows a secret to the OAuth server, not an assertion]
sasl.oauthbearer.assertion.algorithm  string  = RS256  any-case{ES256,RS256}  medium
    Algorithm that signs assertions.
sasl.oauthbearer.assertion.claim.aud  string  medium
    Audience claim of an assertion.
sasl.oauthbearer.assertion.claim.exp.seconds  int  = 300  0..86400  low
    How long an assertion is valid.
sasl.oauthbearer.assertion.claim.iss  string  medium
    Issuer claim of an assertion.
sasl.oauthbearer.assertion.claim.jti.include  boolean  = false  medium
    Whether an assertion has an id.
sasl.oauthbearer.assertion.claim.nbf.seconds  int  = 60  0..3600  low
    How long before its creation an assertion is valid.
sasl.oauthbearer.assertion.claim.sub  string  medium
    Subject claim of an assertion.
sasl.oauthbearer.assertion.file  string  medium
    File with an assertion.
sasl.oauthbearer.assertion.private.key.file  string  medium
    File with the private key that signs assertions.
sasl.oauthbearer.assertion.private.key.passphrase  password  medium
    Passphrase of the private key that signs assertions.
sasl.oauthbearer.assertion.template.file  string  medium
    File with further claims of an assertion.
"""
