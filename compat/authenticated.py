"""The listener of the broker under test whose clients authenticate, with the users of it."""

from __future__ import annotations

from compat.lab.toolchain import free_port

LISTENER = "SASL"
USERS = ("alice", "bob")
"""Users of the mechanism PLAIN. Their passwords are their names."""

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKEN_MECHANISM = "SCRAM-SHA-256"
"""The mechanism with which clients log in with delegation tokens."""

_NAMED = " ".join(f'user_{each}="{each}"' for each in USERS)
SETTINGS = {
    "listener.security.protocol.map": (
        f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": f"PLAIN,{TOKEN_MECHANISM}",
    "listener.name.sasl.plain.sasl.jaas.config": (f"{PLAIN_MODULE} required {_NAMED};"),
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "delegation.token.secret.key": "secret",
}


def listener() -> str:
    """Return the listener on a free port, as the broker takes it."""
    return f"{LISTENER}://127.0.0.1:{free_port()}"


def properties(user: str) -> str:
    """Return the settings of a client that logs in as a user with its password."""
    return _properties("PLAIN", f'{PLAIN_MODULE} required username="{user}" password="{user}";')


def token_properties(token_id: str, hmac: str) -> str:
    """Return the settings of a client that logs in with a delegation token."""
    options = f'username="{token_id}" password="{hmac}" tokenauth="true"'
    return _properties(TOKEN_MECHANISM, f"{SCRAM_MODULE} required {options};")


def _properties(mechanism: str, jaas: str) -> str:
    return (
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n"
    )
