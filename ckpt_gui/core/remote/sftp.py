"""SSH as a careful client does it: a server whose key is not known is refused, where fsspec would take any."""

from __future__ import annotations

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem


class CheckedSftp(SFTPFileSystem):  # type: ignore[misc]
    """Files over SFTP from servers in ~/.ssh/known_hosts, with the keys of the agent and of ~/.ssh."""

    protocol = ("sftp", "ssh")

    def _connect(self) -> None:
        self.client = paramiko.SSHClient()
        self.client.load_system_host_keys()
        self.client.set_missing_host_key_policy(paramiko.RejectPolicy())
        options = dict(self.ssh_kwargs)
        user = options.pop("username", None)
        self.client.connect(self.host, username=user, **options)
        self.ftp = self.client.open_sftp()
