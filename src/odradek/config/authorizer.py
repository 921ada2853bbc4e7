"""Parses the settings of the authorizer."""

from __future__ import annotations

from odradek.config.checks import ConfigurationError

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only supported value of `authorizer.class.name`, except for the empty value."""


def parse_super_users(text: str) -> frozenset[str]:
    """Parse the principals in `super.users`, which are separated by semicolons.

    Raises:
        ConfigurationError: a principal does not have the form type:name.
    """
    users = [part.strip() for part in text.split(";")]
    for user in filter(None, users):
        if ":" not in user:
            problem = "each principal must have the form type:name, such as User:admin"
            raise ConfigurationError.of("super.users", user, problem)
    return frozenset(filter(None, users))
