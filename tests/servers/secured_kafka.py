"""A Kafka broker with every kind of secured listener: one server, one port per kind."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tabletopic_kernel.local import machine, processes
from tabletopic_kernel.local.java import jvm
from tests.servers.certificates import STORE_PASSWORD, Authority, Identity
from tests.servers.token_server import AUDIENCE, CLIENT, SECRET, TokenServer

USER, PASSWORD = "ann", "ann-secret"
# May do nothing but what ACLs allow; the others may do all.
PLAIN_USER = "bob"
# name → protocol, in the order of the listeners.
_LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MTLS": "SSL",
    "LOGIN": "SASL_SSL",
    "UNSIGNED": "SASL_PLAINTEXT",
    "CONTROLLER": "PLAINTEXT",
}
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners}
advertised.listeners={advertised}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map={protocols}
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:CN=client;User:{user};User:{token_user};User:broker
ssl.keystore.type=PKCS12
ssl.keystore.location={keystore}
ssl.keystore.password={store_password}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.tls.ssl.client.auth=none
listener.name.mtls.ssl.client.auth=required
listener.name.login.ssl.client.auth=none
listener.name.login.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.login.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}" user_{plain_user}="{password}";
listener.name.login.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
required;
listener.name.login.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule \
required;
listener.name.login.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.\
OAuthBearerLoginModule required;
listener.name.login.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.\
oauthbearer.OAuthBearerValidatorCallbackHandler
listener.name.login.oauthbearer.sasl.oauthbearer.jwks.endpoint.url={tokens}/jwks
listener.name.login.oauthbearer.sasl.oauthbearer.expected.audience={audience}
listener.name.login.oauthbearer.connections.max.reauth.ms=3600000
listener.name.unsigned.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.unsigned.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.\
OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";
"""


class SecuredKafka:
    """A broker in ``folder`` from ``with`` on; ``clients`` has the properties for each login method."""

    def __init__(self, folder: Path, tokens: TokenServer) -> None:
        self.folder = folder
        self.authority = Authority(folder / "tls")
        self.client: Identity = self.authority.identity("client")
        self._server = self.authority.identity("broker")
        self.tokens = tokens
        self._ports: dict[str, int] = {}
        for listener in _LISTENERS:
            self._ports[listener] = machine.free_port(set(self._ports.values()))
        self._process: subprocess.Popen[bytes] | None = None

    def address(self, listener: str) -> str:
        """A listener's address: PLAINTEXT, TLS, MTLS, LOGIN (over TLS) or UNSIGNED."""
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def admin(self) -> AdminClient:
        """A client of the listener that asks nothing."""
        return AdminClient({"bootstrap.servers": self.address("PLAINTEXT"), "log_level": 0})

    def create_topic(
        self, topic: str, partitions: int = 1, properties: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic."""
        admin = self.admin
        admin.create_topics([NewTopic(topic, partitions, 1, config=dict(properties or {}))])[topic].result()

    def allow(self, operation: AclOperation, *, topic: str | None = None, group: str | None = None) -> None:
        """Grant PLAIN_USER a permission."""
        kind = ResourceType.TOPIC if topic else ResourceType.GROUP
        what = (kind, topic or group, ResourcePatternType.LITERAL)
        rule = AclBinding(*what, f"User:{PLAIN_USER}", "*", operation, AclPermissionType.ALLOW)
        admin = self.admin
        admin.create_acls([rule])[rule].result()

    def clients(self) -> dict[str, dict[str, str]]:
        """[kafka] properties by login method."""
        ca = {"ssl.ca.location": str(self.authority.path)}
        mtls = {"bootstrap.servers": self.address("MTLS"), "security.protocol": "SSL"}
        certificate, key = self.client.pem
        files = {"ssl.certificate.location": str(self.client.certificate)}
        oidc = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": f"{self.tokens.url}/token",
        }
        return {
            "TLS": {"bootstrap.servers": self.address("TLS"), "security.protocol": "SSL", **ca},
            "PLAIN": self.login("PLAIN"),
            "SCRAM-SHA-256": self.login("SCRAM-SHA-256"),
            "SCRAM-SHA-512": self.login("SCRAM-SHA-512"),
            "PKCS#12": mtls
            | ca
            | {
                "ssl.keystore.location": str(self.client.keystore),
                "ssl.keystore.password": STORE_PASSWORD,
            },
            "PEM files": mtls
            | ca
            | files
            | {"ssl.key.location": str(self.client.encrypted_key), "ssl.key.password": STORE_PASSWORD},
            "PEM text": mtls
            | {
                "ssl.ca.pem": self.authority.path.read_text(),
                "ssl.certificate.pem": certificate,
                "ssl.key.pem": key,
            },
            "OIDC": {
                "bootstrap.servers": self.address("LOGIN"),
                "security.protocol": "SASL_SSL",
                **ca,
                **oidc,
            },
            "unsigned tokens": {
                "bootstrap.servers": self.address("UNSIGNED"),
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=ann scope=kafka",
            },
        }

    def login(self, mechanism: str, **changed: str) -> dict[str, str]:
        """Name and password over TLS; ``changed`` has underscores for dots."""
        properties = {
            "bootstrap.servers": self.address("LOGIN"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.path),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        return properties | {name.replace("_", "."): value for name, value in changed.items()}

    def __enter__(self) -> Self:
        self._write()
        scram = [f"SCRAM-SHA-{kind}=[name={USER},password={PASSWORD}]" for kind in ("256", "512")]
        users = [word for user in scram for word in ("--add-scram", user)]
        cluster = ["-t", "q1Sh-9_ISia_zwGINzRvyQ", "-c", "server.properties"]
        self._run("kafka.tools.StorageTool", "format", *cluster, *users)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it responds."""
        with (self.folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", "server.properties"),
                cwd=self.folder, env=processes.environment(), stdout=log, stderr=log,
            )  # fmt: skip
        admin, deadline = self.admin, time.monotonic() + 240
        while True:
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                assert self._process.poll() is None, (self.folder / "log.txt").read_text()[-3000:]
                assert time.monotonic() < deadline, (self.folder / "log.txt").read_text()[-3000:]

    def stop(self) -> None:
        """Kill it; its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def scram_password(self, password: str) -> None:
        """Change the password of the SCRAM-SHA-512 user."""
        self._run(
            "kafka.admin.ConfigCommand", "--bootstrap-server", self.address("PLAINTEXT"), "--alter",
            "--entity-type", "users", "--entity-name", USER,
            "--add-config", f"SCRAM-SHA-512=[password={password}]",
        )  # fmt: skip

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            self._command(*command),
            cwd=self.folder,
            env=processes.environment(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]

    def _command(self, *main: str) -> list[str]:
        jars = os.pathsep.join(map(str, jvm.install().of("kafka")))
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.url}/jwks"
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", allowed]
        return [str(jvm.java()), *options, "-cp", jars, *main]

    def _write(self) -> None:
        every: Mapping[str, int] = self._ports
        listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in every.items()}
        text = _PROPERTIES.format(
            controller=every["CONTROLLER"],
            listeners=",".join(listeners.values()),
            advertised=",".join(place for name, place in listeners.items() if name != "CONTROLLER"),
            protocols=",".join(f"{name}:{protocol}" for name, protocol in _LISTENERS.items()),
            folder=self.folder,
            keystore=self._server.keystore,
            store_password=STORE_PASSWORD,
            ca=self.authority.path,
            user=USER,
            password=PASSWORD,
            plain_user=PLAIN_USER,
            token_user=CLIENT,
            tokens=self.tokens.url,
            audience=AUDIENCE,
        )
        (self.folder / "server.properties").write_text(text)
