"""TLS, SASL, principals and tokens."""

SETTINGS = """
[honoured]
authorizer.class.name  string  = ""  low
    The authorizer, which checks each request against ACLs. The only supported value is `org.apache.kafka.metadata.authorizer.StandardAuthorizer`. If it is empty, all requests are allowed.

[honoured]
security.inter.broker.protocol  string  = PLAINTEXT  {PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL}  medium
    Security protocol between brokers, if `inter.broker.listener.name` is not set.

[honoured]
ssl.enabled.protocols  list  = TLSv1.2,TLSv1.3  distinct  medium  per-broker
    TLS versions that may be used: TLSv1.2 and TLSv1.3.
ssl.keystore.type  string  = JKS  medium  per-broker
    Format of the key store: PEM, PKCS12 or JKS. PKCS12 and JKS need the package cryptography. As in Java, both open both formats.
ssl.keystore.location  string  medium  per-broker
    File with the private key, its certificate, and the certificates of its issuers.
ssl.keystore.password  password  medium  per-broker
    Password of a key store in the format PKCS12. It is also the password of the key.
ssl.key.password  password  medium  per-broker
    Password of the private key in a PEM file or in `ssl.keystore.key`.
ssl.truststore.type  string  = JKS  medium  per-broker
    Format of the trust store: PEM, PKCS12 or JKS. PKCS#12 files need the package cryptography. As in Java, PKCS12 and JKS both open both formats.
ssl.truststore.location  string  medium  per-broker
    File with the certificates of the issuers of the certificates of clients and other nodes.
ssl.truststore.password  password  medium  per-broker
    Password of a trust store in the format PKCS12.
ssl.keystore.key  password  medium  per-broker
    Private key as PEM text, instead of `ssl.keystore.location`. `ssl.keystore.type` must be PEM.
ssl.keystore.certificate.chain  password  medium  per-broker
    Certificate of `ssl.keystore.key` and those of its issuers, as PEM text.
ssl.truststore.certificates  password  medium  per-broker
    Trusted certificates as PEM text, instead of `ssl.truststore.location`. `ssl.truststore.type` must be PEM.
ssl.client.auth  string  = none  {required,requested,none}  medium  per-broker
    Whether clients must have a certificate.
ssl.allow.dn.changes  boolean  = false  low
    Whether a new certificate may have another distinguished name.
ssl.allow.san.changes  boolean  = false  low
    Whether a new certificate may lack alternative names of the present one.
ssl.principal.mapping.rules  string  = DEFAULT  low
    Rules that map the name of a client's certificate to a principal.
ssl.cipher.suites  list  = ""  distinct  medium  per-broker
    Cipher suites that may be used, with their names in Java. Empty: those of OpenSSL. Among the suites of TLS 1.3 it is not possible to choose: if one of them is named, all are offered.
ssl.endpoint.identification.algorithm  string  = https  low  per-broker
    Whether the certificate of another node must contain the host that this node connects to: `https`, or empty for no check.

[accepted: the versions are those of ssl.enabled.protocols]
ssl.protocol  string  = TLSv1.3  medium  per-broker
    TLS version for the context.

[unsupported: keys and certificates are PEM, PKCS#12 or JKS files, and OpenSSL chooses algorithms]
ssl.provider  string  medium  per-broker
    Java provider of TLS.
ssl.keymanager.algorithm  string  = SunX509  medium  per-broker
    Java algorithm of the key manager.
ssl.trustmanager.algorithm  string  = PKIX  medium  per-broker
    Java algorithm of the trust manager.
ssl.secure.random.implementation  string  low  per-broker
    Java source of randomness for TLS.
security.providers  string  low
    Java security providers to load.

[refused: the checks of the class would not be made; remove the setting]
ssl.engine.factory.class  class  low  per-broker
    Java class that creates TLS engines.

[honoured]
connections.max.reauth.ms  long  = 0  medium
    How long a session is valid after SASL authentication. Then the client must authenticate again. 0 means without limit.
sasl.enabled.mechanisms  list  = GSSAPI  distinct  medium  per-broker
    SASL mechanisms that a listener offers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.
sasl.jaas.config  password  medium  per-broker
    Login module and its options, in Java's JAAS form. For a listener with PLAIN, `listener.name.<listener>.plain.sasl.jaas.config` has the users; for GSSAPI, `listener.name.<listener>.gssapi.sasl.jaas.config` has the key table and the principal of the service. For connections to other nodes, `listener.name.<listener>.<mechanism>.sasl.jaas.config` has the `username` and the `password` of this node.
sasl.server.max.receive.size  int  = 524288  medium
    Maximum size of a request before authentication.
sasl.mechanism.controller.protocol  string  = GSSAPI  high
    SASL mechanism of this node's connections to controllers: PLAIN, OAUTHBEARER or GSSAPI; SCRAM-SHA-256 or SCRAM-SHA-512 unless this node is one of several controllers.
sasl.mechanism.inter.broker.protocol  string  = GSSAPI  medium  per-broker
    SASL mechanism of this node's connections to brokers: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.

[refused: the class would not be used, so ACLs would apply to other names: the principal is User:NAME with the name of the authenticated user; remove the setting]
principal.builder.class  class  = org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder  medium  per-broker
    Java class that creates the principal of a connection.

[honoured]
sasl.server.callback.handler.class  class  medium
    How the tokens of OAUTHBEARER are checked, as `listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class`: with `org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler`, or without signatures with `org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler`. Other classes are not loaded.

[unsupported: classes in Java are not loaded]
sasl.client.callback.handler.class  class  medium
    Java class that handles SASL callbacks of the client side.
sasl.login.class  class  medium
    Java class that performs the login.
[honoured]
sasl.login.callback.handler.class  class  medium
    How this node gets tokens for OAUTHBEARER, as `listener.name.<listener>.oauthbearer.sasl.login.callback.handler.class`. It may be `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler`. Other classes are not loaded.
sasl.login.connect.timeout.ms  int  low
    Timeout of a connection to the OAuth server. 10 seconds if it is not set.
sasl.login.read.timeout.ms  int  low
    Timeout of a response from the OAuth server. 10 seconds if it is not set.
sasl.login.retry.backoff.ms  long  = 100  low
    First pause before the request to the OAuth server is repeated.
sasl.login.retry.backoff.max.ms  long  = 10000  low
    How long the request to the OAuth server is repeated.
sasl.login.refresh.window.factor  double  = 0.8  medium  per-broker
    Fraction of a token's lifetime after which the token is renewed.
sasl.login.refresh.window.jitter  double  = 0.05  medium  per-broker
    Maximum random fraction that is added to the time before a token is renewed.
sasl.login.refresh.min.period.seconds  short  = 60  medium  per-broker
    Minimum time between two renewals of a token.
sasl.login.refresh.buffer.seconds  short  = 300  medium  per-broker
    Minimum time between the renewal of a token and its expiry.

[honoured]
sasl.kerberos.service.name  string  medium  per-broker
    First part of the names of the other nodes' services, for connections to them with GSSAPI. The service of a listener is the principal in its `sasl.jaas.config`.
sasl.kerberos.principal.to.local.rules  list  = DEFAULT  distinct  medium  per-broker
    Rules that map the name of a client in Kerberos to a user: DEFAULT, or `RULE:[n:format](pattern)s/pattern/replacement/g/L`. The first one that applies determines the user.

[accepted: the Kerberos library gets new tickets when a connection needs them]
sasl.kerberos.kinit.cmd  string  = /usr/bin/kinit  medium  per-broker
    Path of kinit.
sasl.kerberos.ticket.renew.window.factor  double  = 0.8  medium  per-broker
    Fraction of a ticket's lifetime after which the ticket is renewed.
sasl.kerberos.ticket.renew.jitter  double  = 0.05  medium  per-broker
    Maximum random fraction that is added to the time before a ticket is renewed.
sasl.kerberos.min.time.before.relogin  long  = 60000  medium  per-broker
    Minimum time between two Kerberos logins.

[honoured]
delegation.token.secret.key  password  medium
    Secret that signs delegation tokens. All nodes need the same one. Without it there are no delegation tokens.
delegation.token.max.lifetime.ms  long  = 604800000  >=1  medium
    Maximum lifetime of a delegation token.
delegation.token.expiry.time.ms  long  = 86400000  >=1  medium
    Time before a delegation token expires if it is not renewed.
delegation.token.expiry.check.interval.ms  long  = 3600000  >=1  low
    How often expired tokens are removed.
"""
