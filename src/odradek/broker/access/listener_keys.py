"""The keys and certificates of a node's listeners with TLS.

`check_keys` reads the files before a change of settings is stored, as Apache Kafka does
(DynamicListenerConfig.validateReconfiguration), so that a wrong file is not accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from odradek.config.broker_config import BrokerConfig
from odradek.config.layers import BrokerLayers
from odradek.config.tls import TlsSettings, tls_settings
from odradek.env.certificate_names import CertificateNames, certificate_names, check_change
from odradek.env.tls_context import make_context
from odradek.env.tls_files import PEM, ClientAuth, ServerTls

_PREFIX = "listener.name."


def server_tls(settings: TlsSettings) -> ServerTls:
    """Return the files and versions of a listener in the form of `odradek.env`."""
    trust = settings.trust
    return ServerTls(
        key_file=settings.key.file,
        key_password=settings.key.password.value,
        inner_key_password=settings.key.key_password.value,
        key_type=settings.key.type,
        key_text=settings.key.text.value,
        trust_file=None if trust is None else trust.file or None,
        trust_text="" if trust is None else trust.text.value,
        trust_password="" if trust is None else trust.password.value,
        trust_type=PEM if trust is None else trust.type,
        client_auth=ClientAuth(settings.client_auth),
        versions=settings.versions,
        ciphers=settings.ciphers,
        allows_other_subject=settings.allows_other_subject,
        allows_fewer_names=settings.allows_fewer_names,
    )


def check_keys(
    config: BrokerConfig,
    changed: Iterable[str],
    per_broker: Mapping[str, str],
    names_in_use: Callable[[str], CertificateNames | None],
) -> None:
    """Check the files of the listeners that have a setting in `changed`.

    `per_broker` are all settings of this broker after the change. `names_in_use` returns the names in the
    certificate of a listener, whose file may have been replaced since it was read. If it returns None, the
    names in the file are compared.

    Raises:
        ConfigurationError: settings do not fit together.
        TlsError: a file cannot be read or is malformed, or names of the certificate are missing.
    """
    listeners = {
        name.removeprefix(_PREFIX).partition(".")[0]
        for name in changed
        if name.startswith(_PREFIX) and ".ssl." in name
    }
    layers = BrokerLayers(config.layers.static, config.layers.cluster_default, per_broker)
    for name, protocol in ((each.name, each.security_protocol) for each in config.listeners):
        if name in config.tls_by_listener and name.lower() in listeners:
            new = server_tls(tls_settings(layers, name, protocol))
            make_context(new)
            present = names_in_use(name)
            if present is None:
                present = certificate_names(server_tls(config.tls_by_listener[name]))
            check_change(present, certificate_names(new), new)
