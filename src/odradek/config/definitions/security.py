"""TLS, SASL, principals and tokens."""

SETTINGS = """
[refused: requests would be allowed that it forbids; remove it and keep the listeners on a trusted network]
authorizer.class.name  string  = ""  low
    Java class that authorizes requests.

[refused: only PLAINTEXT listeners can be opened]
security.inter.broker.protocol  string  = PLAINTEXT  {PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL}  medium
    Security protocol among brokers, when no listener name is given.

[unsupported: there are no TLS listeners yet]
ssl.protocol  string  = TLSv1.3  medium  per-broker
    TLS version for the context.
ssl.provider  string  medium  per-broker
    Java provider of TLS.
ssl.cipher.suites  list  = ""  distinct  medium  per-broker
    Cipher suites that may be used.
ssl.enabled.protocols  list  = TLSv1.2,TLSv1.3  distinct  medium  per-broker
    TLS versions that may be used.
ssl.keystore.type  string  = JKS  medium  per-broker
    Format of the key store.
ssl.keystore.location  string  medium  per-broker
    File of the key and its certificates.
ssl.keystore.password  password  medium  per-broker
    Password of the key store.
ssl.keystore.key  password  medium  per-broker
    Private key as text.
ssl.keystore.certificate.chain  password  medium  per-broker
    Certificates of the private key as text.
ssl.key.password  password  medium  per-broker
    Password of the private key.
ssl.truststore.type  string  = JKS  medium  per-broker
    Format of the trust store.
ssl.truststore.location  string  medium  per-broker
    File of the trusted certificates.
ssl.truststore.password  password  medium  per-broker
    Password of the trust store.
ssl.truststore.certificates  password  medium  per-broker
    Trusted certificates as text.
ssl.keymanager.algorithm  string  = SunX509  medium  per-broker
    Java algorithm of the key manager.
ssl.trustmanager.algorithm  string  = PKIX  medium  per-broker
    Java algorithm of the trust manager.
ssl.endpoint.identification.algorithm  string  = https  low  per-broker
    How a server's name is checked against its certificate.
ssl.secure.random.implementation  string  low  per-broker
    Java source of randomness for TLS.
ssl.client.auth  string  = none  {required,requested,none}  medium  per-broker
    Whether clients must show a certificate.
ssl.engine.factory.class  class  low  per-broker
    Java class that makes TLS engines.
ssl.principal.mapping.rules  string  = DEFAULT  low
    How a certificate's name becomes a principal.
ssl.allow.dn.changes  boolean  = false  low
    Let a renewed certificate have another distinguished name.
ssl.allow.san.changes  boolean  = false  low
    Let a renewed certificate lose alternative names.
security.providers  string  low
    Java security providers to load.

[unsupported: there is no SASL yet; every client is User:ANONYMOUS]
principal.builder.class  class  = org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder  medium  per-broker
    Java class that makes the principal of a connection.
connections.max.reauth.ms  long  = 0  medium
    How long an authentication is valid before it has to be repeated.
sasl.enabled.mechanisms  list  = GSSAPI  distinct  medium  per-broker
    SASL mechanisms offered to clients.
sasl.mechanism.controller.protocol  string  = GSSAPI  high
    SASL mechanism towards the controllers.
sasl.mechanism.inter.broker.protocol  string  = GSSAPI  medium  per-broker
    SASL mechanism among brokers.
sasl.jaas.config  password  medium  per-broker
    Login module and its options, in Java's JAAS form.
sasl.client.callback.handler.class  class  medium
    Java class that answers for the client side.
sasl.server.callback.handler.class  class  medium
    Java class that answers for the server side.
sasl.server.max.receive.size  int  = 524288  medium
    Largest SASL message before authentication.
sasl.login.class  class  medium
    Java class that logs in.
sasl.login.callback.handler.class  class  medium
    Java class that answers during login.
sasl.login.connect.timeout.ms  int  low
    How long the login server may take to connect.
sasl.login.read.timeout.ms  int  low
    How long the login server may take to answer.
sasl.login.retry.backoff.ms  long  = 100  low
    First pause before a login is tried again.
sasl.login.retry.backoff.max.ms  long  = 10000  low
    Longest pause before a login is tried again.
sasl.login.refresh.window.factor  double  = 0.8  medium  per-broker
    Part of a token's life after which it is renewed.
sasl.login.refresh.window.jitter  double  = 0.05  medium  per-broker
    Random part of the time after which a token is renewed.
sasl.login.refresh.min.period.seconds  short  = 60  medium  per-broker
    Minimum time between two renewals of a token.
sasl.login.refresh.buffer.seconds  short  = 300  medium  per-broker
    Time before expiry at which a token is renewed at the latest.
sasl.kerberos.service.name  string  medium  per-broker
    Kerberos name of the service.
sasl.kerberos.kinit.cmd  string  = /usr/bin/kinit  medium  per-broker
    Path of kinit.
sasl.kerberos.ticket.renew.window.factor  double  = 0.8  medium  per-broker
    Part of a ticket's life after which it is renewed.
sasl.kerberos.ticket.renew.jitter  double  = 0.05  medium  per-broker
    Random part of the time after which a ticket is renewed.
sasl.kerberos.min.time.before.relogin  long  = 60000  medium  per-broker
    Minimum time between two Kerberos logins.
sasl.kerberos.principal.to.local.rules  list  = DEFAULT  distinct  medium  per-broker
    How a Kerberos name becomes a principal.
delegation.token.secret.key  password  medium
    Secret that signs delegation tokens.
delegation.token.max.lifetime.ms  long  = 604800000  >=1  medium
    Longest life of a delegation token.
delegation.token.expiry.time.ms  long  = 86400000  >=1  medium
    Life of a delegation token between renewals.
delegation.token.expiry.check.interval.ms  long  = 3600000  >=1  low
    How often expired tokens are removed.
"""
