"""Ed25519 signatures (RFC 8032) over a manifest's seal, with the user's own key.

The package `cryptography` is an extra.
"""

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
    """A function that signs manifests with the private key of a PEM file. The file is read at once, so a bad key fails before the run."""
    key = _load_private_key(path)
    public = key.public_key().public_bytes_raw().hex()

    def sign(manifest: Manifest) -> Manifest:
        value = key.sign(manifest.seal.encode()).hex()
        return manifest.model_copy(update={"signature": Signature(public_key=public, value=value)})

    return sign


def is_signature_valid(manifest: Manifest) -> bool:
    """Whether the signature fits its public key and the seal; the caller must know whose key it is."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("a signed manifest", "sign") from error
    signature = manifest.signature
    if signature is None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.public_key)).verify(
            bytes.fromhex(signature.value), manifest.seal.encode()
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def load_public_key(path: Path) -> str:
    """The public key, as hex, of a PEM file with a public or a private key."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise MissingExtra("a signed manifest", "sign") from error
    raw = _read_key(path)
    if b"PRIVATE KEY" in raw:
        return _load_private_key(path).public_key().public_bytes_raw().hex()
    try:
        key = serialization.load_pem_public_key(raw)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"{path} holds no public key in PEM form") from error
    if not isinstance(key, Ed25519PublicKey):
        raise BadRequest(f"{path} holds a key of another kind; only Ed25519 keys sign manifests")
    return key.public_bytes_raw().hex()


def _load_private_key(path: Path) -> Ed25519PrivateKey:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise MissingExtra("signing a manifest", "sign") from error
    try:
        key = serialization.load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadRequest(f"{path} holds no private key in PEM form without a password; {MAKE}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadRequest(f"{path} holds a key of another kind; only Ed25519 keys sign manifests; {MAKE}")
    return key


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"the key {path} cannot be read ({error.strerror or error}); {MAKE}") from error
