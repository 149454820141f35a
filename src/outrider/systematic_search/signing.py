"""A signature with the user's own Ed25519 key (RFC 8032) over a manifest's seal. The package `cryptography` is an extra."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from outrider.state.errors import BadRequest, MissingExtra
from outrider.systematic_search.manifest import Manifest, Signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAKE = "make one with: openssl genpkey -algorithm ed25519 -out key.pem"


def signer(path: Path) -> Callable[[Manifest], Manifest]:
    """Signs with the private key of a PEM file, which is read now: a run does not end before it is known that it can be signed."""
    key = _private(path)
    public = key.public_key().public_bytes_raw().hex()

    def signed(manifest: Manifest) -> Manifest:
        value = key.sign(manifest.seal.encode()).hex()
        return manifest.model_copy(update={"signature": Signature(public_key=public, value=value)})

    return signed


def holds(manifest: Manifest) -> bool:
    """Whether the signature is that of its own public key over the seal; whose key it is, only the one who knows it can tell."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("a signed manifest", "sign") from error
    said = manifest.signature
    if said is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(said.public_key)).verify(bytes.fromhex(said.value), manifest.seal.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def public_key(path: Path) -> str:
    """Of a PEM file with a public or a private key, as hex."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("a signed manifest", "sign") from error
    raw = _read(path)
    if b"PRIVATE KEY" in raw:
        return _private(path).public_key().public_bytes_raw().hex()
    try:
        key = serialization.load_pem_public_key(raw)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"{path} holds no public key in PEM form") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadRequest(f"{path} holds a key of another kind; Ed25519 is checked")
    return key.public_bytes_raw().hex()


def _private(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise MissingExtra("signing a manifest", "sign") from error
    try:
        key = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"{path} holds no private key in PEM form without a password; {MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadRequest(f"{path} holds a key of another kind; Ed25519 signs; {MAKE}")
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"the key {path} cannot be read ({error.strerror or error}); {MAKE}") from error
