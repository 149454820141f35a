"""Errors of object stores: what their messages mean, and what to do.

LanceDB and `obstore` pass on what a service answered: the codes of S3, Azure Blob Storage and Google Cloud Storage, or what kept a
request from being sent. Options that hold credentials never appear in a message of ours, whatever a service echoes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from outrider.text.sanitize import HIDDEN

WHERE = "library.storage_options, or the variables of the store (AWS_..., AZURE_..., GOOGLE_...)"
REMEDIES = tuple(
    (re.compile(pattern), remedy)
    for pattern, remedy in (
        (r"NoSuchBucket|ContainerNotFound|bucket does not exist", "there is no such bucket; create it, or correct the address"),
        (r"InvalidBucketName|InvalidResourceName", "the store refuses the name of the bucket; correct the address"),
        (r"ExpiredToken|TokenRefreshRequired|RequestExpired|[Tt]oken (?:has|is) expired", "the credentials have expired; get new ones"),
        (r"RequestTimeTooSkewed", "the clock of this machine is wrong; set it"),
        (
            r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidToken|AuthenticationFailed|Invalid Access Key|invalid_grant|401 Unauthorized",
            f"the store rejects the credentials; check {WHERE}",
        ),
        (
            r"PermanentRedirect|BareRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint|Failed to resolve region",
            "the bucket is in another region, or there is none; set aws_region in library.storage_options",
        ),
        (
            r"169\.254\.169\.254|NoCredentials|[Ff]ailed to load credentials|no Azure account name|[Mm]issing (?:access key|credentials)",
            f"there are no credentials; set {WHERE}",
        ),
        (r"SlowDown|TooManyRequests|ServerBusy|status: (?:429|503)", "the store asks for fewer requests; try again later"),
        (
            r"dns error|kind: Connect\b|ConnectError|[Cc]onnection refused|error sending request|operation timed out|kind: Timeout",
            "the store cannot be reached (no network?); check the address of the endpoint",
        ),
    )
)
"""Patterns of messages in the order in which they count, and what to do."""
SECRET = re.compile(r"secret|key|token|sas|password|credential|signature", re.IGNORECASE)
"""Of the names of storage options."""
SIGNATURE = re.compile(r"((?:sig|X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature)=)[^&\s\"')<]+", re.IGNORECASE)
LEAST_SECRET = 4
"""Characters: shorter values are words of messages as well."""
MOST_CHARS = 300
"""Of a message that is shown."""


def explain_store(message: str) -> str:
    """What is wrong with the store or the access to it, and what to do; empty for another error."""
    return next((remedy for pattern, remedy in REMEDIES if pattern.search(message)), "")


def read_first_line(error: Exception, options: Mapping[str, str]) -> str:
    """Of its message, without secrets: `obstore` adds a dump of its structures."""
    return hide_secrets((str(error).splitlines() or [type(error).__name__])[0], options)[:MOST_CHARS]


def hide_secrets(message: str, options: Mapping[str, str]) -> str:
    """The message without values of options that hold credentials, and without signatures of addresses."""
    for name, value in options.items():
        if SECRET.search(name) and len(value) >= LEAST_SECRET:
            message = message.replace(value, HIDDEN)
    return SIGNATURE.sub(rf"\1{HIDDEN}", message)
