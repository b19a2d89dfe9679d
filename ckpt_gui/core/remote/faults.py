"""What goes wrong between here and a server, and what is said of it: one sentence with address, bytes and a remedy."""

from __future__ import annotations

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.remote.address import has_secret, shown

LATER = "Try again later; what was read so far is not kept."
NETWORK = "Look at the connection and the address, then open it again."
SIGN_IN = (
    "Sign in the way its own tools do (HF_TOKEN or `hf auth login`, AWS_PROFILE or ~/.aws, ~/.netrc, an ssh agent), or "
    "use an address that is signed."
)
WRONG_WORD = "Look at both; in an address, what is neither letter nor figure is written as %40 for @ and the like."
DOWNLOAD = "Download it first, such as with `curl -L -O ADDRESS`, and open the copy."
CHANGED = "Open it again to read it as it is now."
# status of an answer → what happened, what to do, whether another try may help
STATUSES: dict[int, tuple[str, str, bool]] = {
    401: ("asks for a sign-in (401)", SIGN_IN, False),
    403: ("refuses access (403)", SIGN_IN, False),
    404: (
        "has no such file (404)",
        "Look at the address: every letter of it matters, capitals and the revision too.",
        False,
    ),
    407: ("lies behind a proxy that asks for a sign-in (407)", "Set HTTPS_PROXY as the proxy wants it.", False),
    408: ("waited too long for the request (408)", LATER, True),
    410: ("no longer has this file (410)", "Look for a newer address.", False),
    416: ("says that the file ends before what was asked for (416)", CHANGED, False),
    429: ("asks to slow down (429)", "Wait some minutes; signed in, one may usually ask more often.", True),
    500: ("failed (500)", LATER, True),
    502: ("could not be reached behind its gateway (502)", LATER, True),
    503: ("is overloaded or being mended (503)", LATER, True),
    504: ("gave no answer behind its gateway (504)", LATER, True),
}


class Fault(Exception):
    """Something that went wrong, before it is known which file it concerns.

    Attributes:
        what: What the server did, as the end of a sentence that begins with it.
        fix: What the user can do.
        retry: True if another try may help.
        restart: True if another try may help where the file has been read already: the server is being started again.
        after: Seconds that the server asks to be left alone.
        code: Code of the finding.
        status: Status of the answer, 0 if there was none.
    """

    def __init__(
        self,
        what: str,
        fix: str = NETWORK,
        *,
        retry: bool = False,
        restart: bool = False,
        after: float = 0.0,
        code: str = "unreachable",
        status: int = 0,
    ) -> None:
        """Keep the parts."""
        super().__init__(what)
        self.what, self.fix, self.retry, self.after, self.code, self.status = what, fix, retry, after, code, status
        self.restart = restart

    def sentence(self, url: str, start: int | None = None, end: int | None = None) -> CheckpointError:
        """Return the error for a file, and for the bytes of it that were asked for."""
        part = f" (bytes {start:,} to {end:,})" if start is not None and end is not None else ""
        what, fix = self.what, self.fix
        if self.status in (401, 403) and has_secret(url):
            what, fix = f"refuses the name and password, or the signature, in the address ({self.status})", WRONG_WORD
        text = f"{shown(url)} cannot be read{part}: the server {what}."
        return CheckpointError(self.code, text, fix=fix, path=url, offset=start)


def is_kept_back(error: CheckpointError) -> bool:
    """Return True if a server does not give a file that may well be there."""
    fault = error.__cause__
    return not (isinstance(fault, Fault) and fault.status == 404)


def of_status(status: int, after: float = 0.0) -> Fault:
    """Return the fault that a status of an answer stands for."""
    what, fix, retry = STATUSES.get(status, (f"answered with status {status}", LATER, status >= 500))
    return Fault(what, fix, retry=retry, after=after, status=status)


def changed(how: str) -> Fault:
    """Return the fault of a file that is another now than the one that was opened."""
    return Fault(f"has another file there now than the one that was opened: {how}", CHANGED, code="damaged")
