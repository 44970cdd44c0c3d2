"""What is in deploy/: it parses, its commands are ours, and it keeps to what the page about shufflers says."""

from __future__ import annotations

import configparser
import itertools
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from shuffledp.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGE = (DEPLOY.parent / "docs" / "shuffler.md").read_text("utf-8")


def demand_options(words: list[str]) -> None:
    """A command, and options that it has."""
    command = get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words[0]]
        words = words[1:]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def demand_command(words: list[str]) -> None:
    """Every option that a file gives to ``serve`` is one."""
    assert words[0] == "serve"
    demand_options(words)
    assert {"--state", "--keys"} <= set(words)
    assert words[words.index("--keys") + 1] != words[words.index("--state") + 1]


def test_compose() -> None:
    """The shuffler writes to two volumes and to memory, is reached by the proxy alone, and reaches nobody."""
    told = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    shuffler, proxy = told["services"]["shuffler"], told["services"]["caddy"]
    demand_command(shuffler["command"])
    for service in (shuffler, proxy):
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    assert "ports" not in shuffler
    assert shuffler["networks"] == ["inside"]
    assert told["networks"]["inside"] == {"internal": True}
    assert shuffler["ulimits"]["core"] == 0
    assert shuffler["mem_limit"] == shuffler["memswap_limit"]
    assert [volume.partition(":")[2] for volume in shuffler["volumes"]] == ["/state", "/keys", "/ledger"]
    assert any(line.startswith("/state/work:") for line in shuffler["tmpfs"])
    named = {volume.partition(":")[0] for each in (shuffler, proxy) for volume in each["volumes"]}
    assert {name for name in named if not name.startswith(".")} == told["volumes"].keys()
    assert (DEPLOY.parent / shuffler["build"]["dockerfile"]).exists()


def test_the_image() -> None:
    """It runs as nobody in particular, with the extras that pyproject.toml has."""
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", "").splitlines()
    instructions = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    assert {name for name, _ in instructions} <= {
        "FROM",
        "COPY",
        "RUN",
        "USER",
        "ENV",
        "VOLUME",
        "EXPOSE",
        "ENTRYPOINT",
        "CMD",
    }
    assert [words for name, words in instructions if name == "USER"] == ["shuffler"]
    (command,) = (yaml.safe_load(words) for name, words in instructions if name == "CMD")
    demand_command(command)
    extras = re.search(r"/source\[([\w,]+)\]", "\n".join(lines))
    assert extras is not None
    project = (DEPLOY.parent / "pyproject.toml").read_text("utf-8")
    assert all(f"\n{extra} = [" in project for extra in extras[1].split(","))


def test_the_unit(tmp_path: Path) -> None:
    """No dumps, no swap, two directories of its own; and systemd has nothing to say against it."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "shuffledp.service", "utf-8")
    service = parser["Service"]
    demand_command(shlex.split(service["ExecStart"])[1:])
    assert service["StateDirectory"].split() == ["shuffledp", "shuffledp-keys", "shuffledp-ledger"]
    assert [service[name] for name in ("LimitCORE", "MemorySwapMax", "DynamicUser", "ProtectSystem", "UMask")] == [
        "0", "0", "yes", "strict", "0077",
    ]  # fmt: skip
    tool = shutil.which("systemd-analyze")
    if tool is not None:
        # The program is not installed here; everything else is looked at.
        text = (DEPLOY / "shuffledp.service").read_text("utf-8").replace("/opt/shuffledp/bin/shuffledp", "/bin/true")
        unit = tmp_path / "shuffledp.service"
        unit.write_text(text, "utf-8")
        done = subprocess.run([tool, "verify", str(unit)], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["relay.nginx.conf", "proxy.nginx.conf", "Caddyfile"])
def test_proxies_forget(name: str) -> None:
    """Braces and semicolons are in order; no log is kept, and no header that tells about a person goes on."""
    text = re.sub(r"#.*", "", (DEPLOY / name).read_text("utf-8"))
    bare = re.sub(r'"[^"]*"', "", text)
    assert bare.count("{") == bare.count("}") > 0
    if name == "Caddyfile":
        assert re.findall(r"^\s*log\b.*\n\s*(.*)", text, re.MULTILINE) == ["exclude http"]
        assert {"-X-*", "-Forwarded", "-User-Agent", "-Cookie", "-Referer", "-Sec-*"} <= set(text.split())
        return
    for line in filter(None, (line.strip() for line in text.splitlines())):
        assert line.endswith(("{", "}", ";")), line
    assert text.count("access_log off;") == len(re.findall(r"\blisten\s", text))
    assert text.count("proxy_pass_request_headers off;") == len(re.findall(r"proxy_pass\s", text))
    assert not re.search(r"proxy_set_header\s+(X-Forwarded|X-Real-IP|User-Agent|Cookie|Forwarded)", text)


def test_the_commands_that_need_a_database_or_an_issuer() -> None:
    """Other tests run what they stand for; here, that the page spells them right."""
    lines = [shlex.split(line)[1:] for line in re.findall(r"^    (shuffledp .*)$", PAGE, re.MULTILINE)]
    assert len(lines) == 3
    for words in lines:
        demand_options(words)


@pytest.mark.parametrize("name", ["compose.yaml", "shuffledp.service"])
def test_the_commands_at_the_beginning(name: str) -> None:
    """Key, ledger and campaign, each in a directory that the service has, and the ledger apart from the state."""
    comments = re.sub(r"\\\n#\s*", "", (DEPLOY / name).read_text("utf-8"))
    found = re.findall(r"^#.*?((?:keys new|ledger create|campaign accept) .*?)(?: >.*)?$", comments, re.MULTILINE)
    lines = [shlex.split(line) for line in found]
    assert [words[:2] for words in lines] == [["keys", "new"], ["ledger", "create"], ["campaign", "accept"]]
    for words in lines:
        demand_options(words)
    told = dict(itertools.pairwise(lines[-1]))
    assert told["--key"] == lines[0][2]
    assert told["--ledger"] == lines[1][3]
    assert len({told["--state"], told["--keys"], str(Path(told["--ledger"]).parent)}) == 3


def test_the_page_names_them() -> None:
    """Whoever reads it finds the files."""
    for path in DEPLOY.iterdir():
        assert f"deploy/{path.name}" in PAGE, path.name
