"""Where a second start of the program knocks: takes its request, checks it, and hands it to the windows.

The other half is `desktop.instance`. Nothing here waits: who knocks and says nothing, too much or nonsense is shown
out.
"""

from __future__ import annotations

import logging
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from ckpt_gui.desktop.instance import LONGEST, TAKEN, decode

log = logging.getLogger(__name__)
PATIENCE = 3_000  # milliseconds for a request
MOST_GUESTS = 16


class Door(QObject):
    """Listens at an address.

    Signals:
        wanted(request): A second start was asked for this.
    """

    wanted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.setMaxPendingConnections(MOST_GUESTS)
        self._server.newConnection.connect(self._let_in)
        self._said: dict[QLocalSocket, bytes] = {}

    def open(self, where: str) -> bool:
        """Listen; what a dead process left there is cleared away. Return False if it can not be."""
        if not where or _somebody_answers(where):  # asked first: Qt would put its own socket over a living one
            return False
        QLocalServer.removeServer(where)
        return self._server.listen(where)

    def close(self) -> None:
        """Listen no more."""
        self._server.close()
        for guest in list(self._said):
            guest.abort()

    def _let_in(self) -> None:
        while (guest := self._server.nextPendingConnection()) is not None:
            if len(self._said) >= MOST_GUESTS:
                guest.abort()
                guest.deleteLater()
                continue
            self._said[guest] = b""
            guest.readyRead.connect(partial(self._listen, guest))
            guest.disconnected.connect(partial(self._forget, guest))
            limit = QTimer(guest, singleShot=True, interval=PATIENCE)
            limit.timeout.connect(lambda guest=guest: guest.abort())
            limit.start()
            self._listen(guest)  # it may have spoken already

    def _listen(self, guest: QLocalSocket) -> None:
        if guest not in self._said:
            return
        self._said[guest] += bytes(guest.read(LONGEST + 1 - len(self._said[guest])).data())
        line, end, _ = self._said[guest].partition(b"\n")
        if not end:
            if len(line) > LONGEST:
                guest.abort()
            return
        try:
            request = decode(line)
        except (ValueError, RecursionError) as error:
            log.warning("A second start was shown out: %s", error)
            guest.abort()
            return
        guest.write(TAKEN)
        guest.disconnectFromServer()
        self.wanted.emit(request)

    def _forget(self, guest: QLocalSocket) -> None:
        if self._said.pop(guest, None) is not None:
            guest.deleteLater()


def _somebody_answers(where: str) -> bool:
    """Return whether a process listens at an address; what one left that is gone does not count."""
    guest = QLocalSocket()
    guest.connectToServer(where)
    answered = guest.waitForConnected(200)
    guest.abort()
    return answered
