"""DelegationTokenCommand: delegation tokens, and other tools that log in with them."""

from __future__ import annotations

from typing import NamedTuple

from compat.authenticated import properties, token_properties
from compat.lab.toolchain import Missing
from compat.scenarios.stage import equal, eventually, holds
from compat.tools.workbench import Output, Workbench, check

TOOL = "DelegationTokenCommand"
_HOUR = "3600000"


class _Token(NamedTuple):
    id: str
    hmac: str


class _Clients:
    """Runs tools as different users on the listener with SASL."""

    def __init__(self, bench: Workbench) -> None:
        if not bench.broker.listeners:
            raise Missing("the broker has no listener with SASL")
        self._bench = bench
        self._address = bench.broker.listeners[0].partition("://")[2]
        for user in ("alice", "bob"):
            bench.file(f"{user}.properties", properties(user))

    def log_in_with(self, name: str, token: _Token) -> None:
        """Let a client log in with a token."""
        self._bench.file(f"{name}.properties", token_properties(token.id, token.hmac))

    def run(self, client: str, tool: str, *words: str) -> Output:
        """Run a tool as a client, whatever comes out."""
        file = str(self._bench.directory / f"{client}.properties")
        address = ("--bootstrap-server", self._address, "--command-config", file)
        return self._bench.try_tool(tool, *address, *words, bootstrap=False)

    def ask(self, client: str, *words: str) -> Output:
        """Run the command as a client; it must end with code 0."""
        output = self.run(client, TOOL, *words)
        equal(output.code, 0, f"exit code of {output.tool}, which said {output.shown()}")
        return output

    def refused(self, error: str, client: str, *words: str) -> None:
        """Run the command as a client; it must fail with an error."""
        output = self.run(client, TOOL, *words)
        equal(output.code, 1, f"exit code of {output.tool}, which said {output.shown()}")
        holds(error in output.err, f"{error} in {output.shown()}")

    def create(self, client: str, *words: str) -> _Token:
        """Create a token, and wait until the broker knows it."""
        made = self.ask(client, "--create", "--max-life-time-period", "-1", *words)
        token_id = made.find(r"^Created delegation token with tokenId : (\S+)$")[1]
        token = _Token(token_id, made.find(rf"^{token_id}\s+(\S+)\s+User:{client}\s")[1])
        eventually(
            lambda: self.describe(client, f"User:{client}").out,
            lambda out: token_id in out,
            "the broker knows the token",
        )
        return token

    def describe(self, client: str, owner: str) -> Output:
        """List the tokens of an owner."""
        return self.ask(client, "--describe", "--owner-principal", owner)


@check("DelegationTokenCommand")
def tokens(bench: Workbench) -> None:
    """Create, describe, renew and expire; tokens of others and unknown ones are refused."""
    clients = _Clients(bench)
    token = clients.create("alice", "--renewer-principal", "User:bob")
    clients.describe("bob", "User:alice").says(
        r"^Total number of tokens : 1",
        rf"^{token.id}\s+\S+\s+User:alice\s+User:alice\s+\[User:bob\]",
    )
    clients.describe("alice", "User:nobody").says(r"^Total number of tokens : 0")
    clients.ask("alice", "--describe").says(r"^Calling describe token operation for current user")
    renew = ("--renew", "--renew-time-period", _HOUR, "--hmac")
    expire = ("--expire", "--expiry-time-period", "-1", "--hmac")
    for client in ("alice", "bob"):
        clients.ask(client, *renew, token.hmac).says(
            r"^Completed renew operation\. New expiry date"
        )
    clients.refused("DelegationTokenNotFoundException", "alice", *renew, "AAAA")
    own = clients.create("alice")
    for words in (renew, expire):
        clients.refused("DelegationTokenOwnerMismatchException", "bob", *words, own.hmac)
    clients.ask("alice", *expire, own.hmac).says(r"^Completed expire operation\. New expiry date")
    eventually(
        lambda: clients.describe("alice", "User:alice").out,
        lambda out: own.id not in out,
        "the broker has forgotten the token",
    )
    clients.refused("DelegationTokenNotFoundException", "alice", *renew, own.hmac)
    clients.ask("bob", *expire, token.hmac)


@check("login with a delegation token")
def login(bench: Workbench) -> None:
    """Tools log in with a token until it is removed; they get no further token."""
    clients = _Clients(bench)
    token = clients.create("bob")
    clients.log_in_with("by-token", token)
    clients.log_in_with("wrong", _Token(token.id, "AAAA"))
    listed = clients.run("by-token", "TopicCommand", "--create", "--topic", "made-with-a-token")
    equal(listed.code, 0, f"exit code of TopicCommand, which said {listed.shown()}")
    create = ("--create", "--max-life-time-period", "-1")
    clients.refused("UnsupportedByAuthenticationException", "by-token", *create)
    wrong = clients.run("wrong", "TopicCommand", "--list")
    equal(wrong.code, 1, "exit code with a wrong HMAC")
    holds("SCRAM-SHA-256" in wrong.shown(), f"the reason in {wrong.shown()}")
    plain = bench.try_tool(TOOL, "--command-config", bench.file("plain.properties", ""), *create)
    equal(plain.code, 1, "exit code without authentication")
    holds("UnsupportedByAuthenticationException" in plain.err, f"the error in {plain.shown()}")
    clients.ask("bob", "--expire", "--expiry-time-period", "-1", "--hmac", token.hmac)
    eventually(
        lambda: clients.run("by-token", "TopicCommand", "--list").code,
        lambda code: code == 1,
        "the token has been removed",
    )
