"""The tests' certificate authority, and the certificates it signs."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = dt.timedelta(days=1)
STORE_PASSWORD = "store-secret"


@dataclass(frozen=True)
class Identity:
    """A certificate with its key, in every form that clients accept."""

    certificate: Path  # PEM
    key: Path  # PEM, PKCS#8
    encrypted_key: Path  # PEM, PKCS#8 with STORE_PASSWORD
    keystore: Path  # PKCS#12 with STORE_PASSWORD

    @property
    def pem(self) -> tuple[str, str]:
        """Certificate and key as text."""
        return self.certificate.read_text(), self.key.read_text()


class Authority:
    """Signs certificates for servers on the loopback and for clients; ``path`` is its own certificate."""

    def __init__(self, folder: Path, name: str = "Test CA") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = builder.sign(self._key, hashes.SHA256())
        self.path = folder / "ca.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str, host: str = "127.0.0.1") -> Identity:
        """A certificate of ``name``, valid for a server on ``host`` and for a client."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address(host)), x509.DNSName("localhost")]
        )
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            self._builder(subject, key)
            .add_extension(names, critical=False)
            .add_extension(uses, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return self._written(name, certificate, key)

    def _builder(self, subject: x509.Name, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )

    def _written(self, name: str, certificate: x509.Certificate, key: rsa.RSAPrivateKey) -> Identity:
        secret = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        made = Identity(
            *(self._folder / f"{name}{end}" for end in (".pem", ".key", ".encrypted.key", ".p12"))
        )
        made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        for path, encryption in ((made.key, serialization.NoEncryption()), (made.encrypted_key, secret)):
            path.write_bytes(
                key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
            )
        made.keystore.write_bytes(
            pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [self.certificate], secret)
        )
        return made
