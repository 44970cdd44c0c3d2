"""The recipes of deploy/ as real proxies on loopback, and a tap that hears what reaches the shuffler behind them."""

from __future__ import annotations

import datetime
import ipaddress
import os
import selectors
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DEPLOY = Path(__file__).parents[2] / "deploy"
TIMEOUT_SECONDS = 30.0
NGINX_CONFIGURATION = """\
{user}daemon off;
pid {room}/nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
client_body_temp_path {room}/body;
proxy_temp_path {room}/proxied;
fastcgi_temp_path {room}/fastcgi;
uwsgi_temp_path {room}/uwsgi;
scgi_temp_path {room}/scgi;
access_log {room}/access.log;
{recipes}
}}
"""


def program_path(name: str) -> str:
    """Where it is; ``./test`` brings it."""
    found = shutil.which(name)
    assert found is not None, f"{name} is missing, so that the recipes of deploy/ cannot be tried; run ./test once."
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def create_certificate(room: Path) -> tuple[Path, Path]:
    """For localhost, signed by itself: the certificate and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = room / "localhost.pem", room / "localhost.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, *plain))
    return paths


class RecordingProxy:
    """Passes on every connection to the shuffler, and remembers what was sent to it."""

    def __init__(self, to: int) -> None:
        self.heard, self._to = bytearray(), to
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("127.0.0.1", self._to)) as far:
            self._relay_both_ways(near, far)

    def _relay_both_ways(self, near: socket.socket, far: socket.socket) -> None:
        """Until one end is done."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(near, selectors.EVENT_READ, far)
            waiting.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in waiting.select():
                    origin = near if key.data is far else far
                    content = origin.recv(1 << 16)
                    if not content:
                        return
                    self.heard += content if origin is near else b""
                    key.data.sendall(content)

    def header_names(self) -> set[str]:
        """Of all headers."""
        heads = [part.rpartition(b"HTTP/1.")[2] for part in bytes(self.heard).split(b"\r\n\r\n")]
        lines = [line for head in heads for line in head.split(b"\r\n")[1:] if b": " in line]
        return {line.partition(b":")[0].decode("latin-1").lower() for line in lines}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()


def adapt_configuration(recipe: str, changes: dict[str, str]) -> str:
    """A recipe for this machine; what is replaced is there."""
    text = (DEPLOY / recipe).read_text("utf-8")
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def nginx_files(room: Path, shuffler: int) -> tuple[list[str], int, int]:
    """The command, and the ports of the relay and of the proxy behind it."""
    pem, key = create_certificate(room)
    relay, proxy, hasty = free_port(), free_port(), {"timeout  10s": "timeout  1s", "timeout    10s": "timeout    1s"}
    front = adapt_configuration("proxy.nginx.conf", hasty | {
        "127.0.0.1:8080": f"127.0.0.1:{shuffler}", "127.0.0.1:8081": f"127.0.0.1:{shuffler}",
        "server 127.0.0.1:8082; ": "", "listen 443": f"listen 127.0.0.1:{proxy}",
        "/etc/ssl/shuffler.example.pem": str(pem), "/etc/ssl/shuffler.example.key": str(key),
    })  # fmt: skip
    before = adapt_configuration("relay.nginx.conf", hasty | {
        "listen 443": f"listen 127.0.0.1:{relay}", "https://shuffler.example": f"https://localhost:{proxy}",
        "/etc/ssl/relay.example.pem": str(pem), "/etc/ssl/relay.example.key": str(key),
        "/etc/ssl/certs/ca-certificates.crt": str(pem),
    })  # fmt: skip
    user = "" if os.getuid() else "user root;\n"
    (room / "nginx.conf").write_text(NGINX_CONFIGURATION.format(user=user, room=room, recipes=front + before), "utf-8")
    return [program_path("nginx"), "-p", str(room), "-c", str(room / "nginx.conf"), "-e", "stderr"], relay, proxy


def caddy_files(room: Path, shuffler: int) -> tuple[list[str], int, int]:
    """The command, and its port, twice: there is no relay."""
    pem, key = create_certificate(room)
    port = free_port()
    text = adapt_configuration("Caddyfile", {
        "{\n\tlog {": "{\n\tadmin off\n\tauto_https off\n\tlog {", "read_header 10s": "read_header 1s",
        "shuffler.example {": f"localhost:{port} {{\n\tbind 127.0.0.1\n\ttls {pem} {key}",
        "shuffler:8080": f"127.0.0.1:{shuffler}",
    })  # fmt: skip
    (room / "Caddyfile").write_text(text, "utf-8")
    return [program_path("caddy"), "run", "--config", str(room / "Caddyfile"), "--adapter", "caddyfile"], port, port


def _answers(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def run_proxy(command: list[str], port: int, room: Path) -> Iterator[None]:
    """A proxy while the block runs; what it says is in ``room``."""
    home = {"HOME": str(room), "XDG_DATA_HOME": str(room / "data"), "XDG_CONFIG_HOME": str(room / "settings")}
    with (room / "said.log").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | home, cwd=room)
    try:
        until = time.monotonic() + TIMEOUT_SECONDS
        while not _answers(port):
            ended = process.poll() is not None or time.monotonic() > until
            assert not ended, (room / "said.log").read_text()
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
