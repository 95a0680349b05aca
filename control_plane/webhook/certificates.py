"""A certificate authority of one's own and the certificate it signs (pure but for randomness).

A renewed authority keeps its key and its name: pods that know only the old one go on trusting what the new
one signs, and the other way round, until the old one's own end. Certificates of servers are short-lived.
https://www.rfc-editor.org/rfc/rfc5280
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIVES: Final = timedelta(days=3650)
AUTHORITY_RENEWED: Final = timedelta(days=730)
LIVES: Final = timedelta(days=90)
RENEWED: Final = timedelta(days=30)
"""How long before its end each is made anew."""
SKEW: Final = timedelta(hours=1)
AUTHORITY_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "outrigger authority")])
MAX_COMMON_NAME: Final = 64


class UnusableCertificateError(ValueError):
    """What is kept is no authority with its certificate; the message says why."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An authority and the server's certificate, all as PEM."""

    authority: bytes
    authority_key: bytes = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)


def kept_now(kept: Kept | None, names: Sequence[str], now: datetime) -> Kept:
    """Return what to keep at `now` for a server called `names`: `kept` itself while it is good for that.

    Args:
        kept: what there is; None or unusable: all is made.
        names: DNS names and addresses, at least one.
        now: the time of day, with its zone.
    """
    try:
        authority, key = _authority_of(kept)
    except UnusableCertificateError:
        key = ec.generate_private_key(ec.SECP256R1())
        return _signed(_authority(key, now), key, names, now)
    if authority.not_valid_after_utc - now < AUTHORITY_RENEWED:
        return _signed(_authority(key, now), key, names, now)
    if kept is None or not _serves(kept, authority, names, now):
        return _signed(authority, key, names, now)
    return kept


def _authority_of(kept: Kept | None) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    if kept is None:
        raise UnusableCertificateError("there is none")
    try:
        authority = x509.load_pem_x509_certificate(kept.authority)
        key = serialization.load_pem_private_key(kept.authority_key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UnusableCertificateError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != authority.public_key():
        raise UnusableCertificateError("the key is not the authority's")
    return authority, key


def _serves(kept: Kept, authority: x509.Certificate, names: Sequence[str], now: datetime) -> bool:
    """Whether the certificate is of the authority, for these names, and good for a while yet."""
    try:
        certificate = x509.load_pem_x509_certificate(kept.certificate)
        key = serialization.load_pem_private_key(kept.key, None)
        certificate.verify_directly_issued_by(authority)
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature, x509.ExtensionNotFound):
        return False
    fits = key.public_key() == certificate.public_key()
    return (
        fits
        and set(extension.value) >= set(_alternatives(names))
        and (certificate.not_valid_after_utc - now >= RENEWED)
    )


def _authority(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(AUTHORITY_NAME)
        .issuer_name(AUTHORITY_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + AUTHORITY_LIVES)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def _signed(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: datetime,
) -> Kept:
    """Return a new certificate for `names`, with the authority that signed it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:MAX_COMMON_NAME])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIVES)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_issuer_of(authority), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return Kept(authority.public_bytes(pem), _pem(authority_key), certificate.public_bytes(pem), _pem(key))


def _issuer_of(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    try:
        found = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        # Not one that we made: somebody put theirs into the Secret.
        key = authority.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found.value)


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative(name) for name in dict.fromkeys(names)]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
