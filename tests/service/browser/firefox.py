"""Firefox, driven by its own protocol, Marionette: JSON over TCP, each message after its length."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60.0
PREFERENCES = {
    "marionette.port": 0,
    "app.update.enabled": False,
    "browser.region.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
}


class Firefox:
    """A running one, with a profile of its own."""

    def __init__(self, connection: socket.socket) -> None:
        self._file, self._number = connection.makefile("rwb"), 0
        self._receive()
        self.send_command("WebDriver:NewSession", {})

    def send_command(self, command: str, told: dict[str, Any]) -> Any:
        """What it answers."""
        self._number += 1
        content = json.dumps([0, self._number, command, told]).encode()
        self._file.write(str(len(content)).encode() + b":" + content)
        self._file.flush()
        _, _, error, result = self._receive()
        assert error is None, error
        return result

    def _receive(self) -> Any:
        length = b""
        while (digit := self._file.read(1)) != b":":
            length += digit
        return json.loads(self._file.read(int(length)))

    def run(self, script: str) -> Any:
        """What a script on the page returns."""
        return self.send_command("WebDriver:ExecuteScript", {"script": script, "args": []})["value"]

    def wait(self, script: str, wanted: str) -> str:
        """Until the script's text contains the wanted one."""
        until = time.monotonic() + TIMEOUT_SECONDS
        while wanted not in (found := str(self.run(script))):
            assert time.monotonic() < until, f"expected {wanted!r}, got {found!r}"
            time.sleep(0.1)
        return found


@contextmanager
def firefox(program: str, room: Path) -> Iterator[Firefox]:
    """It writes its port into the profile."""
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (room / "user.js").write_text("\n".join(lines), "utf-8")
    command = [program, "--headless", "--marionette", "--no-remote", "--profile", str(room)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port, until = room / "MarionetteActivePort", time.monotonic() + TIMEOUT_SECONDS
        while not (port.exists() and port.read_text().strip()):
            assert process.poll() is None, "Firefox ended"
            assert time.monotonic() < until, "Firefox does not listen"
            time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", int(port.read_text())), TIMEOUT_SECONDS) as connection:
            yield Firefox(connection)
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
