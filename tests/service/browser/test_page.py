"""Headless Chromium: people take part with the page that a shuffler serves, and with a page of somebody else."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

from shuffledp import KRR, HadamardResponse, Piecewise, Plan, tasks
from shuffledp.service.batch_receiver import fetch_and_open
from shuffledp.service.browser.assets import CONTENT_SECURITY_POLICY, MODULE_NAME, load_static_file
from shuffledp.service.campaign import Campaign
from shuffledp.service.crypto import encode_base64url
from shuffledp.service.stores import ShufflerPaths
from shuffledp.service.tokens import Issuer, PrivateTokens
from tests.docs.test_browser_page import BLOCKS, HOST
from tests.service import ANALYST, COLOURS, SHUFFLER
from tests.service.server import Server, accept_campaign, close_round_now, run_server, wait_for_state

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE = 60_000
MOST = 3
"""Who take part in the campaign that is brought to its end."""


def campaign_asking(
    plan: Plan, question: str, operators: tuple[str, str] = ("Example Institute", "Other House")
) -> Campaign:
    return Campaign.create(
        plan, ANALYST, SHUFFLER.identity, url="http://127.0.0.1", operators=operators, window=3600, question=question
    )


def colours(mechanism: KRR | HadamardResponse, users: int = 40, minimum: int = MOST) -> Plan:
    return Plan(tasks.Frequency(COLOURS), mechanism, users=users, epsilon=0.6, delta=1e-6, minimum=minimum)


COLOUR = campaign_asking(colours(KRR(0.5, 3)), "Which colour is your door?")
LATER = campaign_asking(colours(KRR(0.5, 3)), "Which colour is your gate?")
HOURS = campaign_asking(
    Plan(tasks.Mean(0.0, 24.0), Piecewise(0.5), users=40, epsilon=0.6, delta=1e-6), "How long did you sleep?", ("", "")
)
ISSUER = Issuer.new()
CHOOSY = Campaign.create(
    colours(KRR(0.5, 3), minimum=1), ANALYST, SHUFFLER.identity, url="http://127.0.0.1", operators=("A", "B"),
    window=3600, question="Which colour is your car?", admission=PrivateTokens("issuer.example", ISSUER.key),
)  # fmt: skip
STRANGE = campaign_asking(colours(HadamardResponse(0.5, 3)), "Which colour is your roof?")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> ShufflerPaths:
    """A shuffler of all these campaigns."""
    directory = tmp_path_factory.mktemp("state")
    (paths, *_) = [accept_campaign(directory, campaign) for campaign in (COLOUR, LATER, HOURS, CHOOSY, STRANGE)]
    return paths


@pytest.fixture(scope="module")
def server(state: ShufflerPaths) -> Iterator[Server]:
    with run_server(state.state) as running:
        yield running


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's; where there is none, these tests cannot pass."""
    path = shutil.which("chromium")
    assert path is not None, "Chromium is needed: apt-get install chromium"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Person:
    """Somebody's browser: her storage, whom it asked, and what it complained about."""

    context: BrowserContext
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def visit(self, address: str) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on(
            "console", lambda told: self.complaints.append(told.text) if told.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda asked: self.asked.append(asked.url))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.violatedDirective))"
        )
        page.goto(address)
        return page


@contextmanager
def person(chromium: Browser, **settings: object) -> Iterator[Person]:
    context = chromium.new_context(**settings)  # type: ignore[arg-type]
    yield Person(context)
    context.close()


def address(server: Server, campaign: Campaign) -> str:
    return f"{server.url}/v1/take-part#{campaign.id}"


def done(page: Page, sentence: str) -> None:
    expect(page.locator("#status.good")).to_contain_text(sentence, timeout=PATIENCE)


@pytest.mark.browser
def test_people_take_part_and_are_counted_once(
    server: Server, state: ShufflerPaths, chromium: Browser, tmp_path: Path
) -> None:
    """One reloads and comes back, one loses the acknowledgement and sends the same bytes again, one uses keys alone:
    three reports of four requests."""
    place = address(server, COLOUR)
    with person(chromium) as first:
        page = first.visit(place)
        page.get_by_label("green").check()
        page.get_by_role("button", name="Send my answer").click()
        done(page, "counts once")
        page.reload()
        done(page, "already taken part")
        expect(page.get_by_role("button")).to_be_disabled()
        again = first.visit(place)
        done(again, "already taken part")
        seen = first
    with person(chromium) as second:
        bodies = losing(second)
        page = second.visit(place)
        page.get_by_label("red").check()
        page.get_by_role("button").click()
        expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        page.reload()
        expect(page.get_by_role("status")).to_contain_text("not confirmed yet")
        # Another answer is not asked for, and the limit holds for what is new alone.
        expect(page.get_by_label("blue")).to_be_disabled()
        page.get_by_role("button", name="Send the same again").click()
        done(page, "counts once")
        assert len(bodies) == 2
        assert bodies[0] == bodies[1]
        assert len(bodies[0]) == COLOUR.report_bytes
    with person(chromium, viewport={"width": 360, "height": 640}, color_scheme="dark") as third:
        page = third.visit(place)
        expect(page.get_by_role("button")).to_be_visible()
        for key in ("Tab", "ArrowDown", "Tab", "Tab", "Enter"):
            page.keyboard.press(key)
        done(page, "counts once")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
    for each in (seen, third):
        assert each.complaints == []
        assert all(place.startswith((f"{server.url}/v1/", "data:")) for place in each.asked)
    close_round_now(state, COLOUR)
    wait_for_state(server, COLOUR, ANALYST.fetch_token(COLOUR.nonce), "forgotten")
    assert fetch_and_open(COLOUR, ANALYST, out=tmp_path / "opened", url=server.url).users == MOST


TWO_AT_ONCE = """async ([base, id]) => {
  const { Wallet, load, send } = await import("./client.js");
  const campaign = await load(base, id);
  const both = await Promise.all(["red", "blue"].map((answer) => send(campaign, answer, new Wallet(1))));
  return [both.map(({ round }) => round), (await new Wallet(1).spent()).epsilon === campaign.promise.epsilon];
}"""


@pytest.mark.browser
def test_two_pages_at_once(server: Server, chromium: Browser) -> None:
    """Both of one browser begin before either has written anything down: one answer, whose bytes both send."""
    bodies: list[bytes] = []

    def note(route: Route) -> None:
        bodies.append(route.request.post_data_buffer or b"")
        route.continue_()

    with person(chromium) as someone:
        someone.context.route("**/reports", note)
        page = someone.visit(address(server, LATER))
        assert page.evaluate(TWO_AT_ONCE, [server.url, LATER.id]) == [[1, 1], True]
        assert len(set(bodies)) == 1
        page.reload()
        done(page, "already taken part")


def losing(someone: Person) -> list[bytes]:
    """The first report reaches the shuffler, and its answer is lost."""
    bodies: list[bytes] = []

    def lost(route: Route) -> None:
        bodies.append(route.request.post_data_buffer or b"")
        if len(bodies) > 1:
            route.continue_()
            return
        assert route.fetch().status == 201
        route.abort()

    someone.context.route("**/reports", lost)
    return bodies


@pytest.mark.browser
def test_what_people_are_told(server: Server, chromium: Browser) -> None:
    """What is asked and sent, what is promised by whom, on which conditions, and what it costs; numbers rounded up."""
    with person(chromium) as someone:
        page = someone.visit(address(server, LATER))
        expect(page.get_by_role("group", name="Which colour is your gate?")).to_be_visible()
        told = page.inner_text("main")
        for words in (
            "Not your answer itself", "at least 3 people take part", "Example Institute (analyst)",
            "Other House (shuffler)", "If Example Institute and Other House work together",
            "1 in 1,000,000", "ε = 0.50", "you have given ε = 0.00 so far", LATER.id,
        ):  # fmt: skip
            assert words in told, words
        assert "nothing is sent unless" not in told
        page.get_by_label("The most that you want to give").fill("0.1")
        expect(page.locator("#cost")).to_contain_text("more than your limit: nothing is sent unless you raise it")
        page.get_by_label("red").check()
        page.get_by_role("button").click()
        expect(page.get_by_role("alert")).to_contain_text("more than the limit that you set")
        page.get_by_label("The most that you want to give").fill("2")
        page.get_by_role("button").click()
        done(page, "counts once")
        assert page.get_by_role("alert").is_hidden()
        other = someone.visit(address(server, HOURS))
        expect(other.get_by_label("The most that you want to give")).to_have_value("2")
        expect(other.locator("#cost")).to_contain_text("given ε = 0.50 so far; with your answer it will be 0.83")
        expect(other.get_by_role("button")).to_be_visible()
        assert "not named (analyst)" in other.inner_text("main")
        other.get_by_label("A number from 0 to 24").fill("7.5")
        other.get_by_role("button").click()
        done(other, "counts once")
        assert someone.complaints == []


@pytest.mark.browser
def test_a_person_with_a_token(server: Server, state: ShufflerPaths, chromium: Browser, tmp_path: Path) -> None:
    """It must be for this round of this campaign, by its issuer; then the shuffler admits her, once."""
    tokens = {number: CHOOSY.admission.request(CHOOSY.id, number) for number in (1, 2)}  # type: ignore[union-attr]
    good, other = (encode_base64url(asked.finish(ISSUER.sign(asked.content))) for asked in tokens.values())
    with person(chromium) as someone:
        page = someone.visit(address(server, CHOOSY))
        page.get_by_label("green").check()
        for wrong, sentence in (
            ("AAAA", "This is no token"),
            ("no token!", "This is no token"),
            (other, "another camp"),
        ):
            page.get_by_label("Token for this round").fill(wrong)
            page.get_by_role("button").click()
            expect(page.get_by_role("alert")).to_contain_text(sentence)
        page.get_by_label("Token for this round").fill(f" {good}==")
        page.get_by_role("button", name="Send my answer").click()
        done(page, "counts once")
        page.reload()
        done(page, "already taken part")
        assert someone.complaints == []
        page = someone.visit(address(server, LATER))
        expect(page.get_by_role("button")).to_be_visible()
        assert page.get_by_label("Token for this round").is_hidden()
    close_round_now(state, CHOOSY)
    wait_for_state(server, CHOOSY, ANALYST.fetch_token(CHOOSY.nonce), "forgotten")
    assert fetch_and_open(CHOOSY, ANALYST, out=tmp_path / "opened", url=server.url).users == 1


@pytest.mark.browser
def test_pages_that_take_no_part(server: Server, chromium: Browser) -> None:
    """In one sentence: another mechanism, no campaign, one that nobody knows."""
    sentences = {
        STRANGE.id: "(hadamard-response) does not run in browsers",
        "": "needs the id",
        "0" * 64: "does not know",
    }
    with person(chromium) as someone:
        for id_, sentence in sentences.items():
            page = someone.visit(f"{server.url}/v1/take-part#{id_}")
            expect(page.get_by_role("alert")).to_contain_text(sentence)
            assert page.locator("form").is_hidden()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A page's own host, another origin than the shuffler's."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    host = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=host.serve_forever)
    thread.start()
    yield tmp_path, f"http://127.0.0.1:{host.server_port}"
    host.shutdown()
    thread.join()
    host.server_close()


def embedded(room: Path, server: Server, campaign: Campaign, integrity: str) -> None:
    """The page of docs/browser.md, at its own host."""
    (html,) = (text for kind, text in BLOCKS if kind == "html")
    (script,) = (text for kind, text in BLOCKS if kind == "js")
    html, script = (text.replace(HOST, server.url) for text in (html, script))
    (room / "index.html").write_text(html.replace("sha384-…", integrity), "utf-8")
    (room / "doors.js").write_text(script.replace("CAMPAIGN", campaign.id), "utf-8")


@pytest.mark.browser
def test_pages_of_other_origins(server: Server, chromium: Browser, elsewhere: tuple[Path, str]) -> None:
    """They take part with the module that the hash names; another one is not run."""
    room, host = elsewhere
    embedded(room, server, LATER, load_static_file(MODULE_NAME).integrity)
    with person(chromium) as someone:
        page = someone.visit(f"{host}/index.html")
        page.wait_for_load_state("networkidle")
        for words in ("Thank you.", "You have taken part already."):
            page.get_by_role("button").click()
            expect(page.get_by_role("status")).to_have_text(words, timeout=PATIENCE)
    embedded(room, server, LATER, f"sha384-{'A' * 64}")
    with person(chromium) as someone:
        page = someone.visit(f"{host}/index.html")
        page.wait_for_load_state("networkidle")
        assert any("integrity" in complaint for complaint in someone.complaints)
        assert not any(LATER.id in place for place in someone.asked)


def test_the_policy_is_strict() -> None:
    """Nothing inline, no other host, no frame."""
    rules = dict(rule.strip().split(" ", 1) for rule in CONTENT_SECURITY_POLICY.split(";"))
    assert rules["default-src"] == rules["frame-ancestors"] == rules["form-action"] == rules["base-uri"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert load_static_file(MODULE_NAME).integrity.encode() in load_static_file("take-part").body
