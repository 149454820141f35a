"""The object store or service of an open library, and its handles there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from outrider.library.store_errors import read_first_line
from outrider.state.errors import LibraryError, MissingExtra
from outrider.text.sanitize import without_password

if TYPE_CHECKING:
    from lancedb.table import AsyncTable
    from obstore.store import ObjectStore

MOST_ROWS_AT_ONCE = 50_000
"""Records of a library whose ranking index is read as a whole: some 17 MB."""
CLIENT_OPTIONS = frozenset(
    {"allow_http", "allow_invalid_certificates", "connect_timeout", "http1_only", "http2_only", "proxy_url", "timeout", "user_agent"}
)
"""Options of LanceDB that `obstore` takes apart from those of a service."""
LANCE_OPTIONS = ("new_table_", "client_", "download_retry_count", "request_timeout", "dynamodb_", "headers.")
"""Beginnings of options of LanceDB alone."""
IDENTITY = ("access_key_id", "skip_signature")
"""Ends of names of S3's options that say who asks."""


@dataclass(eq=False)
class ObjectStorage:
    """The object store, or the service, of one open library."""

    uri: str
    options: Mapping[str, str] = field(repr=False)
    """LanceDB's storage options, which hold credentials."""
    interval_s: float = 0.0
    """Seconds between two looks of a kept handle for a later version."""
    handles: WeakSet[AsyncTable] = field(default_factory=WeakSet, repr=False)
    """Handles that are kept open for reads of the latest version."""
    warms_up: bool = True
    """Whether the ranking index is still to be read as a whole, where there is no copy."""

    @cached_property
    def store(self) -> ObjectStore:
        """For leases, which only writers take, and copies of the ranking index.

        Raises `MissingExtra`, and `LibraryError` for an address or options that it refuses.
        """
        try:
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError as error:
            raise MissingExtra("writing to a library on object storage", "object-storage") from error
        own = {name.lower(): value for name, value in self.options.items()}
        client: Any = {name: value == "true" if name == "allow_http" else value for name, value in own.items() if name in CLIENT_OPTIONS}
        config: Any = {name: value for name, value in own.items() if name not in client and not name.startswith(LANCE_OPTIONS)}
        provider = _find_profile() if self.uri.startswith("s3://") and not any(name.endswith(IDENTITY) for name in own) else None
        try:
            return from_url(self.uri, config=config, client_options=client, credential_provider=provider)
        except (BaseError, ValueError) as error:
            reason = read_first_line(error, self.options)
            raise LibraryError(f"the options of the object store at {without_password(self.uri)} are refused: {reason}") from error

    async def refresh(self) -> None:
        """Bring every kept handle to the latest version: before a writer reads, and after it has written by other handles."""
        if self.interval_s:
            await asyncio.gather(*map(self._refresh, [*self.handles]))

    async def _refresh(self, table: AsyncTable) -> None:
        try:
            await table.checkout_latest()  # type: ignore[no-untyped-call]
        except (RuntimeError, OSError, ValueError) as error:
            if "not found" not in str(error).lower():
                raise
            self.handles.discard(table)  # another process has dropped this table


def _find_profile() -> Any:
    """Credentials of a profile, a single sign-on or a role, where boto3 is installed: LanceDB reads these, `obstore` alone does not."""
    try:
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return None
    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError):  # it finds none
        return None
