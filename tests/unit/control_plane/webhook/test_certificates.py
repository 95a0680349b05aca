"""An authority of one's own and what it signs."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from control_plane.webhook.certificates import Kept, kept_now

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NAMES = ("outrigger-webhook.mesh.svc", "10.0.0.1")


@pytest.fixture(scope="module")
def made() -> Kept:
    """Return what is made where there is nothing."""
    return kept_now(None, NAMES, NOW)


def leaf(kept: Kept) -> x509.Certificate:
    """Return the server's certificate."""
    return x509.load_pem_x509_certificate(kept.certificate)


def test_a_new_one_is_signed_for_its_names(made: Kept, tmp_path: Path) -> None:
    """For DNS names and addresses; OpenSSL takes the pair, and the key is in no repr."""
    leaf(made).verify_directly_issued_by(x509.load_pem_x509_certificate(made.authority))
    names = leaf(made).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["outrigger-webhook.mesh.svc"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    (tmp_path / "c").write_bytes(made.certificate)
    (tmp_path / "k").write_bytes(made.key)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "c", tmp_path / "k")
    assert "PRIVATE" not in repr(made)


def test_what_is_good_stays(made: Kept) -> None:
    """No replica writes what is there; fewer names than there are will do."""
    assert kept_now(made, NAMES, NOW + timedelta(days=59)) is made
    assert kept_now(made, NAMES[:1], NOW) is made


def test_a_certificate_near_its_end_is_made_anew(made: Kept) -> None:
    """A month before, by the same authority."""
    renewed = kept_now(made, NAMES, NOW + timedelta(days=61))
    assert renewed.authority == made.authority
    assert leaf(renewed).not_valid_after_utc > leaf(made).not_valid_after_utc


def test_other_names_need_another_certificate(made: Kept) -> None:
    """A Service that was renamed."""
    assert kept_now(made, (*NAMES, "other.mesh.svc"), NOW).authority == made.authority


def test_a_renewed_authority_is_trusted_by_those_who_know_the_old_one(made: Kept) -> None:
    """It keeps name and key: pods with the old one verify what the new one signs."""
    renewed = kept_now(made, NAMES, NOW + timedelta(days=3650 - 700))
    assert renewed.authority != made.authority
    leaf(renewed).verify_directly_issued_by(x509.load_pem_x509_certificate(made.authority))
    leaf(renewed).verify_directly_issued_by(x509.load_pem_x509_certificate(renewed.authority))


@pytest.mark.parametrize("part", ["authority", "authority_key", "certificate", "key"])
@pytest.mark.parametrize("content", [b"", b"junk"])
def test_what_is_broken_is_made_anew(made: Kept, part: str, content: bytes) -> None:
    """Whatever is unreadable, the result is whole."""
    mended = kept_now(replace(made, **{part: content}), NAMES, NOW)
    assert kept_now(mended, NAMES, NOW) is mended


def test_a_certificate_of_another_authority_is_made_anew(made: Kept) -> None:
    """Parts of two do not fit together."""
    other = kept_now(None, NAMES, NOW)
    mixed = replace(made, certificate=other.certificate, key=other.key)
    assert kept_now(mixed, NAMES, NOW).certificate != other.certificate
    crossed = replace(made, authority_key=other.authority_key)
    assert kept_now(crossed, NAMES, NOW).authority not in {made.authority, other.authority}


def test_an_authority_that_somebody_else_made_signs_too(made: Kept) -> None:
    """One without an identifier of its key: nothing asks for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "theirs")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW + timedelta(days=3650))
    theirs = builder.add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signed = kept_now(replace(made, authority=theirs.public_bytes(pem), authority_key=private), NAMES, NOW)
    leaf(signed).verify_directly_issued_by(theirs)
    assert kept_now(signed, NAMES, NOW) is signed
