"""Addresses of remote files: told from paths, taken apart, and never shown with what is secret in them.

An address that is let in by `admit` goes on as its public form. The secret one (a password, a signed query) stays in a
table of this process, so that no title, report, log or list of recent files can hold it.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.keys import safe_text

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_URLS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s\"'<>]+")
HTTP = ("http", "https")
_WITH_USER = ("ssh", "sftp")  # a user's name says where to log in there, and is no secret
# What a query may say without being a secret: which file, which version, and how it is handed out.
_PLAIN = frozenset(
    ("alt", "dl", "download", "export", "file", "filename", "format", "path", "raw", "ref", "revision", "version",
     "versionid")
)  # fmt: skip
_LONGEST_PLAIN = 200
_HUBS = frozenset(("huggingface.co", "www.huggingface.co", "hf.co"))
_NO_MODELS = frozenset(("api", "datasets", "docs", "spaces", "blog", "papers"))
_SECRETS: dict[str, str] = {}


def is_url(text: str) -> bool:
    """True for an address, false for a path.

    >>> is_url("s3://bucket/model"), is_url("/models/a")
    (True, False)
    """
    return _URL.match(text) is not None


def admit(text: str) -> str:
    """Take in a path or an address from the user, and return what stands for it everywhere else.

    Raises:
        CheckpointError: It is an address that can not be taken apart.
    """
    if not is_url(text):
        return text
    text = text.strip()
    if text.lower().startswith("file://"):
        from urllib.request import url2pathname  # 20 ms that opening a path must not take

        return url2pathname(urlsplit(text).path)
    real = _on_hub(text)
    public = redacted(real)
    if public != real:
        _SECRETS[public] = real
    return public


def real_address(public: str) -> str:
    """Return the address with its secrets, for the one who fetches it; the same where it has none."""
    if public in _SECRETS:
        return _SECRETS[public]
    home = next((known for known in _SECRETS if _is_below(public, known)), None)
    if home is None:
        return public
    return urlsplit(_SECRETS[home])._replace(path=urlsplit(public).path).geturl()


def has_secret(public: str) -> bool:
    """True if fetching from an address takes a secret that only this process knows."""
    return real_address(public) != public


def redacted(text: str) -> str:
    """Return an address without passwords, signatures and tokens.

    >>> redacted("https://me:secret@host/a.pt?X-Amz-Signature=1f&versionId=3#top")
    'https://host/a.pt?X-Amz-Signature=…&versionId=3'
    """
    try:
        parts = urlsplit(text)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise CheckpointError("not-a-checkpoint", "The address is not one that can be read: its host is.") from error
    scheme = parts.scheme.lower()
    user = f"{parts.username}@" if parts.username and scheme in _WITH_USER else ""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    at = parts.netloc.rpartition("@")[2].partition(":")[0]
    place = f"{user}{host if scheme in (*HTTP, *_WITH_USER) else at}{port}"
    if scheme == "hf":  # an @ there stands for a revision
        place = parts.netloc
    return urlunsplit((scheme, place, parts.path, _plain_query(parts.query), ""))


def without_secrets(text: str) -> str:
    """Return a text, such as the log of a crash, in which no address has anything secret."""
    return _URLS.sub(lambda found: _shown_or_nothing(found[0]), text)


def _shown_or_nothing(url: str) -> str:
    try:
        return redacted(url)
    except CheckpointError:
        return "(an address)"


def split(url: str) -> tuple[str, str]:
    """Return the folder and the name of an address, both without a query.

    >>> split("https://host/m/a.pt?x=1")
    ('https://host/m', 'a.pt')
    """
    trunk = _trunk(url)
    folder, _, name = trunk.rstrip("/").rpartition("/")
    return (trunk.rstrip("/"), "") if folder.endswith((":/", ":")) else (folder, unquote(name))


def join(folder: str, name: str) -> str:
    """Return the address of a name in a folder."""
    web = urlsplit(folder).scheme in HTTP
    return f"{_trunk(folder).rstrip('/')}/{quote(name) if web else name}"


def _plain_query(query: str) -> str:
    """Return a query in which only what is known to be harmless has a value; a word by itself may be a token."""
    kept = []
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        plain = name.lower() in _PLAIN and len(value) <= _LONGEST_PLAIN
        kept.append(part if plain else f"{name}=…" if equals else "…")
    return "&".join(kept)


def _trunk(url: str) -> str:
    return url.partition("?")[0] if urlsplit(url).scheme in HTTP else url


def _is_below(public: str, home: str) -> bool:
    """True for what lies in a folder that was let in, or beside a file that was, and for the folder of that file."""
    below = f"{public.rstrip('/')}/"
    return below.startswith((f"{_trunk(home).rstrip('/')}/", f"{split(home)[0]}/"))


def _on_hub(text: str) -> str:
    """Return the hub's own address for the page of a model there, which is a web page and not the model."""
    parts = urlsplit(text)
    words = [word for word in parts.path.split("/") if word]
    if parts.hostname not in _HUBS or parts.scheme not in HTTP or len(words) < 2 or words[0] in _NO_MODELS:
        return text
    model = "/".join(words[:2])
    if len(words) == 2:
        return f"hf://{model}"
    if words[2] in ("tree", "blob", "resolve") and len(words) > 3:
        revision = "" if words[3] == "main" else f"@{words[3]}"
        return "/".join([f"hf://{model}{revision}", *words[4:]])
    return text


def shown(url: str) -> str:
    """Return an address fit to be shown in a sentence."""
    return safe_text(url, limit=400)
