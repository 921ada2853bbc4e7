"""Parses values of sasl.jaas.config, and files, with login modules and their options (Kafka's JaasConfig).

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

The server's options of PlainLoginModule are `user_NAME="PASSWORD"`. `username` and `password` are the
credentials of the node itself as a client. With `tokenauth="true"`, ScramLoginModule uses a
delegation token: `username` is its id, and `password` its HMAC in base64.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from odradek.config.checks import ConfigurationError

PLAIN_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
KERBEROS_LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
OAUTH_LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"

_FLAGS = frozenset(("required", "requisite", "sufficient", "optional"))
_USER = "user_"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}


class LoginModule(NamedTuple):
    """A login module. Its options are secrets."""

    name: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name})"

    @property
    def is_token(self) -> bool:
        """Whether the credentials are those of a delegation token, of ScramLoginModule."""
        return self.options.get("tokenauth", "").lower() == "true"

    @property
    def users(self) -> dict[str, str]:
        """The passwords by user name, of PlainLoginModule."""
        return {
            name.removeprefix(_USER): password
            for name, password in self.options.items()
            if name.startswith(_USER)
        }


def parse_login_module(setting: str, text: str) -> LoginModule:
    """Parse the value of a setting. It must have exactly one login module.

    Raises:
        ConfigurationError: the value is malformed. The message does not contain it.
    """
    modules = _modules(setting, list(_tokens(setting, text)))
    if len(modules) != 1:
        raise _malformed(setting, f"it has {len(modules)} login modules, not 1")
    return modules[0]


def parse_sections(file: str, text: str) -> dict[str, list[LoginModule]]:
    """Parse a file: sections such as `KafkaServer { MODULE required NAME=VALUE; };`.

    Raises:
        ConfigurationError: the file is malformed. The message does not contain its text.
    """
    tokens = list(_tokens(file, text, _IN_FILE))
    sections: dict[str, list[LoginModule]] = {}
    while tokens:
        if len(tokens) < 2 or tokens[0].is_mark or tokens[1] != _OPENING:
            raise _malformed(file, "the name of a section and { are expected")
        if _CLOSING not in tokens:
            raise _malformed(file, "a section does not end with };")
        end = tokens.index(_CLOSING)
        sections[tokens[0].text] = _modules(file, tokens[2:end])
        if tokens[end + 1 : end + 2] != [_END]:
            raise _malformed(file, "a section does not end with };")
        del tokens[: end + 2]
    return sections


def format_login_module(module: LoginModule) -> str:
    """Return the value of a setting with this login module."""
    options = (f'{name}="{_escaped(value)}"' for name, value in module.options.items())
    return " ".join((module.name, "required", *options)) + ";"


def _escaped(value: str) -> str:
    value = value.replace("\\", "\\\\").replace('"', '\\"')
    return value.replace("\n", "\\n")


def _modules(setting: str, tokens: list[_Token]) -> list[LoginModule]:
    modules: list[LoginModule] = []
    while tokens:
        if _END not in tokens:
            raise _malformed(setting, "it does not end with a semicolon")
        end = tokens.index(_END)
        modules.append(_module(setting, tokens[:end]))
        del tokens[: end + 1]
    return modules


class _Token(NamedTuple):
    """A word, the text between quotes, or one of the marks `=`, `;` and braces."""

    text: str
    is_mark: bool = False


_END = _Token(";", is_mark=True)
_EQUALS = _Token("=", is_mark=True)
_OPENING = _Token("{", is_mark=True)
_CLOSING = _Token("}", is_mark=True)
_GRAMMAR = r"""\s+ | //[^\n]* | /\*.*?\*/
      | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<word>[^\s"'=;/,{BRACES}][^\s"'=;,{BRACES}]*) | (?P<mark>[=;{BRACES}])"""
_IN_SETTING = re.compile(_GRAMMAR.replace("{BRACES}", ""), re.VERBOSE | re.DOTALL)
_IN_FILE = re.compile(_GRAMMAR.replace("{BRACES}", "{}"), re.VERBOSE | re.DOTALL)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)


def _tokens(setting: str, text: str, token: re.Pattern[str] = _IN_SETTING) -> Iterator[_Token]:
    """Yield the tokens without blanks and comments."""
    position = 0
    while position < len(text):
        found = token.match(text, position)
        if found is None:
            raise _malformed(setting, f"character {position + 1} is not expected")
        position = found.end()
        match found.lastgroup:
            case "double" | "single" as kind:
                yield _Token(_ESCAPE.sub(_unescaped, found[kind]))
            case "word":
                yield _Token(found[0])
            case "mark":
                yield _Token(found[0], is_mark=True)
            case _:
                pass


def _unescaped(found: re.Match[str]) -> str:
    escaped = found[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPES.get(escaped, escaped)


def _module(setting: str, tokens: list[_Token]) -> LoginModule:
    if len(tokens) < 2:
        raise _malformed(setting, "a login module and its control flag are expected")
    name, flag, *rest = tokens
    if flag.text.lower() not in _FLAGS:
        raise _malformed(setting, "the control flag must be required")
    options: dict[str, str] = {}
    while rest:
        if len(rest) < 3 or rest[1] != _EQUALS or rest[0].is_mark or rest[2].is_mark:
            raise _malformed(setting, "each option must have the form name=value")
        options[rest[0].text] = rest[2].text
        del rest[:3]
    return LoginModule(name.text, options)


def _malformed(setting: str, problem: str) -> ConfigurationError:
    return ConfigurationError.of(setting, "[hidden]", problem)
