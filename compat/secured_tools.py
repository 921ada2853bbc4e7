"""Apache Kafka's tools on a secured node: a table of commands, and what they must print.

`secured_tools.json` has what they print with Apache Kafka. `python -m compat.secured_tools` records it
again. Both brokers use the files of `odradek secure init`.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509

from compat.authenticated import SCRAM_MODULE
from compat.scenarios.stage import equal, eventually
from compat.secured import FILES, Secured, SecuredApacheKafka
from compat.tools.workbench import Output, Workbench

EXPECTED = Path(__file__).with_suffix(".json")
MECHANISM = "SCRAM-SHA-512"
ADMIN, ANN, TOKEN = "client.properties", "ann.properties", "token.properties"
CONFIGS, ACLS, TOPICS = "kafka.admin.ConfigCommand", "AclCommand", "TopicCommand"
TOKENS, PRODUCER, CONSUMER = "DelegationTokenCommand", "ConsoleProducer", "consumer.ConsoleConsumer"
CREATE = "--create --max-life-time-period -1"
READ = "--topic orders --group readers --from-beginning --timeout-ms 9000 --max-messages"
CONSUMER_ACLS = "--allow-principal User:ann --consumer --topic orders --group readers"
DENIAL = (
    "--deny-principal User:eve --deny-host 10.0.0.1 --operation Read "
    "--topic pre --resource-pattern-type prefixed"
)
SET_KEY = (
    "--alter --broker 1 --add-config listener.name.sasl_ssl.ssl.keystore.location={files}/{key}"
)
Said = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """A command of a user. `{files}`, `{key}` and `{hmac}` in its words are replaced."""

    user: str
    tool: str
    words: str
    given: str = ""
    """The standard input."""

    @property
    def title(self) -> str:
        """The command with its user."""
        return f"{self.user} {self.tool} {self.words}"

    @property
    def makes_token(self) -> bool:
        """Whether the command creates a token, so that it may not be repeated."""
        return self.tool == TOKENS and self.words == CREATE


STEPS = (
    Step(ADMIN, TOPICS, "--create --if-not-exists --topic orders --partitions 1"),
    # Users: SCRAM and quotas.
    Step(ADMIN, CONFIGS, "--alter --user ann --add-config SCRAM-SHA-512=[iterations=8192,password=ann-secret]"),
    Step(ADMIN, CONFIGS, "--alter --user bob --add-config SCRAM-SHA-256=[iterations=20000,password=x]"),
    Step(ADMIN, CONFIGS, "--alter --user bob --delete-config SCRAM-SHA-256"),
    Step(ADMIN, CONFIGS, "--alter --user ann --add-config producer_byte_rate=1000000"),
    Step(ADMIN, CONFIGS, "--describe --entity-type users"),
    # Without permissions.
    Step(ANN, TOPICS, "--list"),
    Step(ANN, TOPICS, "--create --topic other"),
    Step(ANN, CONFIGS, "--describe --user ann"),
    Step(ANN, CONFIGS, "--alter --topic orders --add-config retention.ms=1000000"),
    Step(ANN, ACLS, "--list"),
    Step(ANN, CONSUMER, f"{READ} 1"),
    # With permissions.
    Step(ADMIN, ACLS, "--add --allow-principal User:ann --producer --topic orders"),
    Step(ADMIN, ACLS, f"--add {CONSUMER_ACLS}"),
    Step(ADMIN, ACLS, f"--add {DENIAL}"),
    Step(ADMIN, ACLS, "--list"),
    Step(ADMIN, ACLS, "--list --principal User:ann --group readers"),
    Step(ADMIN, ACLS, "--list --topic prefix-and-more --resource-pattern-type match"),
    Step(ANN, TOPICS, "--list"),
    Step(ANN, PRODUCER, "--topic orders", "one\ntwo\n"),
    Step(ANN, CONSUMER, f"{READ} 2"),
    # Delegation tokens.
    Step(ANN, TOKENS, CREATE),
    Step(ADMIN, TOKENS, "--describe --owner-principal User:ann"),
    Step(TOKEN, PRODUCER, "--topic orders", "three\n"),
    Step(ANN, CONSUMER, f"{READ} 1"),
    Step(TOKEN, TOKENS, CREATE),
    Step(ADMIN, TOKENS, "--renew --renew-time-period 3600000 --hmac {hmac}"),
    Step(ANN, TOKENS, "--expire --expiry-time-period -1 --hmac {hmac}"),
    Step(TOKEN, TOPICS, "--list"),
    # Certificates.
    Step(ADMIN, CONFIGS, SET_KEY.replace("{key}", "missing.pem")),
    Step(ADMIN, CONFIGS, SET_KEY.replace("{key}", "ca.pem")),
    Step(ADMIN, CONFIGS, SET_KEY.replace("{key}", "node-1.pem")),
    Step(ADMIN, CONFIGS, "--describe --broker 1"),
    # Permissions and credentials end.
    Step(ADMIN, ACLS, f"--remove --force {CONSUMER_ACLS}"),
    Step(ADMIN, ACLS, f"--remove --force {DENIAL}"),
    Step(ADMIN, ACLS, "--list"),
    Step(ADMIN, CONFIGS, "--alter --user ann --delete-config SCRAM-SHA-512"),
    Step(ANN, TOPICS, "--list"),
    Step(ADMIN, CONFIGS, "--describe --entity-type users"),
)  # fmt: skip
"""In this order; later steps depend on earlier ones."""

_SETTLE_SECONDS = 1.5
_NOISE = re.compile(r"KIP-848|already exists|^exit code|^Tools\$Exited|^Caused by|^\s+at |^$")
_ERROR = re.compile(r"(?m)^(?:Caused by: |java.*?: )?org\.apache\.kafka\.common\.errors\.(\w+)")
_UNSTABLE = ((r"\d{4}-\d\d-\d\dT\d\d:\d\d\S*", "TIME"), (r"\s+", " "))


def play(node: Secured, bench: Workbench) -> None:
    """Run all steps, and compare what they print with what they print with Apache Kafka.

    Raises:
        CheckFailed: there is a difference.
    """
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    player = _Player(node, bench)
    for step, known in zip(STEPS, expected, strict=True):
        equal(known["command"], step.title, "command in secured_tools.json")
        _play_step(player, step, known["said"])


def _play_step(player: _Player, step: Step, known: Said) -> None:
    new = player.new_certificate() if "node-1.pem" in step.words else None
    said = player.said(step)
    if said != known and not step.makes_token:  # the last change may not be applied yet
        eventually(
            lambda: player.said(step),
            lambda found: found == known,
            f"what {step.title} says: {known}, not {said}",
        )
    else:
        equal(said, known, f"what {step.title} says")
    if new is not None:
        eventually(player.served, lambda found: found == new, "the new certificate is served")


class _Player:
    """Runs steps on one broker."""

    def __init__(self, node: Secured, bench: Workbench) -> None:
        self._node, self._bench = node, bench
        self._names = {"files": str(node.files), "token": "", "hmac": ""}
        self._write(ANN, "ann", "ann-secret")

    def new_certificate(self) -> x509.Certificate:
        """Make a new key and certificate of the broker."""
        words = [self._node.program, "secure", "node", self._node.files, "1"]
        subprocess.run([str(each) for each in words], check=True, capture_output=True)
        return x509.load_pem_x509_certificates((self._node.files / "node-1.pem").read_bytes())[0]

    def served(self) -> x509.Certificate:
        """Return the certificate that the broker shows."""
        text = ssl.get_server_certificate(("127.0.0.1", self._node.port))
        return x509.load_pem_x509_certificate(text.encode())

    def said(self, step: Step) -> Said:
        """Run a step; return what it prints, without what differs from run to run."""
        words = step.words.format_map(self._names).split(" ")
        file = str(self._node.files / step.user)
        output = self._bench.try_tool(step.tool, "--command-config", file, *words, given=step.given)
        if made := re.search(r"tokenId : (\S+)", output.out):
            self._keep_token(made[1], output.find(rf"(?m)^{re.escape(made[1])}\s+(\S+)")[1])
        return self._stable(output)

    def _keep_token(self, token: str, hmac: str) -> None:
        self._names |= {"token": token, "hmac": hmac}
        self._write(TOKEN, token, hmac, ' tokenauth="true"')

    def _write(self, name: str, user: str, password: str, more: str = "") -> None:
        """Write the settings of a client that logs in with SCRAM."""
        text = (self._node.files / FILES["java"]).read_text(encoding="utf-8")
        jaas = f'{SCRAM_MODULE} required username="{user}" password="{password}"{more};'
        text = re.sub("(?m)^sasl.jaas.config=.*", f"sasl.jaas.config={jaas}", text)
        text = re.sub("(?m)^sasl.mechanism=.*", f"sasl.mechanism={MECHANISM}", text)
        (self._node.files / name).write_text(text, encoding="utf-8")

    def _stable(self, output: Output) -> Said:
        text = f"{output.out}\n{output.err}"
        for name, value in self._names.items():
            if value:
                text = text.replace(value, f"{{{name}}}")
        errors = sorted(set(_ERROR.findall(text)))
        lines = [] if errors else [each for each in text.splitlines() if not _NOISE.search(each)]
        for pattern, replacement in _UNSTABLE:
            lines = [re.sub(pattern, replacement, each).strip() for each in lines]
        return {"code": output.code, "errors": errors, "lines": sorted(lines)}


def main() -> int:
    """Record what the tools print with Apache Kafka."""
    found = []
    with (
        SecuredApacheKafka() as node,
        tempfile.TemporaryDirectory() as directory,
        Workbench(node, Path(directory)) as bench,
    ):
        player = _Player(node, bench)
        for step in STEPS:
            if "node-1.pem" in step.words:
                player.new_certificate()
            found.append({"command": step.title, "said": player.said(step)})
            time.sleep(_SETTLE_SECONDS)  # until the broker has applied a change
    text = json.dumps(found, indent=1, ensure_ascii=False)
    EXPECTED.write_text(f"{text}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
