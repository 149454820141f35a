"""Signs that an address or a page is not open: logins, captchas, paywalls

Only a page that shows nothing of this is read. What a barrier hides is never asked for: a redirect to a login is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

LOGIN_HOST = re.compile(
    r"^(?:login|signin|sso|auth|idp|wayf|shibboleth|openathens|accounts?|secure-login)[.-]|\.openathens\.", re.IGNORECASE
)
LOGIN_PATH = re.compile(
    r"/(?:login|log-in|signin|sign-in|sign_in|auth|authenticate|oauth2?|sso|wayf|shibboleth|saml2?|ssostart|register|subscribe"
    r"|subscription|purchase|checkout|cart|paywall|action/(?:showlogin|ssostart|getftrlinkout))(?:[/?.;]|$)",
    re.IGNORECASE,
)
CHALLENGE_PATH = re.compile(r"captcha|/cdn-cgi/challenge|/_incapsula_|validate\.perfdrive|/sorry/index|are-you-a-robot", re.IGNORECASE)
CAPTCHA = re.compile(
    r"g-recaptcha|h-captcha|hcaptcha\.com|cf-turnstile|challenges\.cloudflare\.com|cf[-_]chl|px-captcha|datadome|_incapsula_resource"
    r"|<title>\s*(?:just a moment|attention required|are you a robot|verify(?:ing)? (?:that )?you are (?:a )?human|preparing to download"
    r"|robot check|access denied|pardon our interruption|security check)",
    re.IGNORECASE,
)
PASSWORD = re.compile(r"<input[^<>]{0,300}\btype\s*=\s*[\"']?password", re.IGNORECASE)
NOT_FREE = re.compile(r"[\"']isAccessibleForFree[\"']\s*:\s*[\"']?(?:false|no)\b", re.IGNORECASE)
"""Of schema.org, as search engines ask publishers to mark what is behind a paywall."""
ACCESS_META = re.compile(
    r"<meta[^<>]{0,200}\bname\s*=\s*[\"'](?:access|dc\.accessrights|citation_access|article:content_tier)[\"'][^<>]{0,200}"
    r"\bcontent\s*=\s*[\"'](?:no|closed|restricted|locked|metered)",
    re.IGNORECASE,
)
PAYWALL = re.compile(
    r"(?:purchase|buy|rent) (?:this |the |instant |immediate )?(?:article|pdf|access|chapter|full text|paper)|get (?:full )?access to this"
    r"|access through your institution|institutional (?:login|log in|sign in)|subscribe to (?:continue|read|access|view)"
    r"|log ?in (?:to|or) (?:read|view|access|continue|purchase|subscribe)|sign in to (?:read|view|access|continue)"
    r"|you do not (?:currently )?have access|this (?:content|article) is (?:only )?available (?:only )?to subscribers|check access",
    re.IGNORECASE,
)
RESERVED = re.compile(r"<meta[^<>]{0,200}\bname\s*=\s*[\"']tdm-reservation[\"'][^<>]{0,200}\bcontent\s*=\s*[\"']1[\"']", re.IGNORECASE)
"""W3C's TDM Reservation Protocol: the owner reserves text and data mining. A header of the same name means the same."""
LICENCE_LINK = re.compile(
    r"<(?:a|link)\b(?=[^<>]{0,500}\brel\s*=\s*[\"']?(?:[^\"'>]{0,50}\s)?license\b)[^<>]{0,500}\bhref\s*=\s*[\"']([^\"'>]{1,300})",
    re.IGNORECASE,
)
LICENCE_META = re.compile(
    r"<meta[^<>]{0,200}\bname\s*=\s*[\"'](?:dc\.rights|dcterms\.license|dcterms\.rights|citation_license)[\"'][^<>]{0,200}"
    r"\bcontent\s*=\s*[\"']([^\"'>]{1,300})",
    re.IGNORECASE,
)
CREATIVE_COMMONS = re.compile(r"https?://creativecommons\.org/(?:licenses|publicdomain)/[a-z-]{1,20}/\d\.\d", re.IGNORECASE)
MOST_CHARS = 1_000_000
"""Characters of a page that are searched: as many as are read of it."""
FEW_CHARS = 6_000
"""Words of a paywall, and a captcha, on a page with more text of its own are those of a menu, or of a form for comments."""


def find_address_barrier(url: str) -> str:
    """Why an address is not asked for: it is that of a login, a shop or a captcha. Empty for another one."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if CHALLENGE_PATH.search(f"{host}{parts.path}"):
        return "a captcha"
    if LOGIN_HOST.search(host) or LOGIN_PATH.search(parts.path):
        return "a login or a shop"
    return ""


def find_reservation(headers: Mapping[str, str]) -> str:
    """Why the headers of an answer forbid to read it. Names are in lower case."""
    return "its owner reserves text and data mining (tdm-reservation)" if headers.get("tdm-reservation", "").strip() == "1" else ""


def find_page_barrier(markup: str, text_chars: int) -> str:
    """Why a page is not an open text, by its mark-up and the number of characters of its main text; empty for an open page."""
    start = markup[:MOST_CHARS]
    if RESERVED.search(start):
        return "its owner reserves text and data mining (tdm-reservation)"
    if NOT_FREE.search(start) or ACCESS_META.search(start):
        return "a paywall: it says that it is not free to read"
    if text_chars >= FEW_CHARS:
        return ""
    if CAPTCHA.search(start):
        return "a captcha"
    if PAYWALL.search(start):
        return "a paywall"
    return "a login page" if PASSWORD.search(start) and text_chars < FEW_CHARS // 2 else ""


def find_page_licence(markup: str) -> str:
    """The licence that a page links or declares; the address of a Creative Commons licence anywhere on it if that is the only one."""
    start = markup[:MOST_CHARS]
    if declared := LICENCE_LINK.search(start) or LICENCE_META.search(start):
        return declared[1].strip()
    linked = {match.lower() for match in CREATIVE_COMMONS.findall(start)}
    return linked.pop() if len(linked) == 1 else ""
