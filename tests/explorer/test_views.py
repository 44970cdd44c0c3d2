"""Each view in a real browser: the command's numbers, by mouse, by keys, on a phone, in the dark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.explorer.browser import PageServer, axe_source
from tests.explorer.conftest import BrowserTab, command_output

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

KRR = ("--mechanism", "krr", "--set", "options=16")
ASKED = (*KRR, "--epsilon-local", "2", "--users", "100000", "--delta", "1e-8")
TABLE = "0.6,0.2,0.2\n0.2,0.6,0.2\n0.2,0.2,0.6\n"
ROWS = """rows => rows.map(row => [row.cells[0].innerText,
  row.querySelector('[data-exact]')?.dataset.exact ?? null, row.cells[2].innerText])"""
FOCUSED = """() => { const one = document.activeElement;
  return one.dataset.name ?? one.dataset.slider ?? one.dataset.view ?? one.textContent.slice(0, 30) }"""
PHONE = {"width": 360, "height": 740}
PLAN = ("plan", "--task", "frequency", "--domain", "16", "--users", "100000", "--delta", "1e-8", "--mechanism", "krr")


def upper_of(*arguments: str) -> str:
    """ε that the command promises, as JSON writes it."""
    found: Any = command_output("amplify", *arguments, "--effort", "quick")
    return json.dumps(found["epsilon"]["upper"])


def awaited(page: Page, selector: str, name: str, value: str) -> None:
    """Until an element tells this."""
    page.wait_for_selector(f"{selector}[{name}='{value}']")


# --- the views --------------------------------------------------------------------------------------------------------


def test_the_guarantee(visit: BrowserTab) -> None:
    """ε to the last digit, the attack, the conditions, every bound, and ε against the users."""
    page = visit.open("guarantee")
    assert visit.exact_number("#epsilon") == upper_of(*ASKED)
    assert page.inner_text("#epsilon") == "ε ≤ 0.0261"
    page.wait_for_selector("#attack:has-text('achieves ε = 0.02609')")
    assert "The shuffler reveals neither the order" in page.inner_text("#view")
    compared: Any = command_output("compare", *ASKED)
    page.wait_for_selector("#view table")
    shown = page.eval_on_selector_all("#view tbody tr", ROWS)
    for row, (name, value, why) in zip(compared["bounds"], shown, strict=True):
        assert name == row["bound"]
        assert value == (None if row["epsilon"] is None else json.dumps(row["epsilon"]["upper"]).strip('"'))
        assert (row["theorem"] if row["epsilon"] else row["reason"]) in why
    page.wait_for_selector("figure.plot path.line")
    assert "shuffledp amplify --mechanism=krr" in page.inner_text(".home pre >> nth=0").replace("\n", " ")


def test_a_slider_moves_the_number(visit: BrowserTab) -> None:
    """By one key, and the address says so."""
    page = visit.open("guarantee")
    before = visit.exact_number("#epsilon")
    page.focus("[data-slider=users]")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#epsilon:not([data-exact='{before}'])")
    users = page.input_value("#f-users")
    assert users != "100000"
    assert visit.exact_number("#epsilon") == upper_of(*KRR, "--epsilon-local", "2", "--users", users, "--delta", "1e-8")
    assert f"users={users}" in page.url


def test_a_link_shows_the_same_again(visit: BrowserTab) -> None:
    """All that was chosen is in the address."""
    page = visit.open("guarantee?mechanism=oue&epsilon_local=1.5&users=20000&delta=1e-6&set.options=8&colluding=50")
    typed_ = ("--mechanism", "oue", "--set", "options=8", "--epsilon-local", "1.5", "--users", "20000")
    wanted = upper_of(*typed_, "--delta", "1e-6", "--colluding", "50")
    awaited(page, "#epsilon", "data-exact", wanted)
    page.click("text=Copy link to this")
    link = page.evaluate("() => navigator.clipboard.readText()")
    other = page.context.new_page()
    other.goto(link)
    awaited(other, "#epsilon", "data-exact", wanted)
    assert other.input_value("#f-colluding") == "50"
    other.close()


def test_what_is_wrong_is_said_as_it_is_typed(visit: BrowserTab) -> None:
    """In the library's own sentence, beside the field; and it goes when it is mended."""
    page = visit.open("guarantee")
    visit.exact_number("#epsilon")
    page.fill("#f-users", "1e300")
    page.wait_for_selector("#problem:has-text('users must be at most 1e+18')")
    awaited(page, "#f-users", "aria-invalid", "true")
    page.fill("#f-users", "5,000")
    page.wait_for_selector("#problem", state="hidden")
    awaited(page, "#f-users", "aria-invalid", "false")
    awaited(
        page, "#epsilon", "data-exact", upper_of(*KRR, "--epsilon-local", "2", "--users", "5000", "--delta", "1e-8")
    )


def test_an_uploaded_table(visit: BrowserTab, tmp_path: Path) -> None:
    """A file of one's own randomizer gives the command's number."""
    file = tmp_path / "mine.csv"
    file.write_text(TABLE, "utf-8")
    page = visit.open("guarantee?mechanism=table&users=1000&delta=1e-6")
    visit.exact_number("#epsilon")
    page.set_input_files("input[type=file]", file)
    awaited(page, "#epsilon", "data-exact", upper_of("--table", str(file), "--users", "1000", "--delta", "1e-6"))
    page.fill("#f-table", "0.5,0.6\n1,0\n")
    page.wait_for_selector("#problem:has-text('table.csv')")


def test_the_risk_in_words(visit: BrowserTab) -> None:
    """The sentence with the certified rate, and without the shuffler beside it."""
    page = visit.open("risk?users=1000&fpr=0.05&prior=0.2")
    told: Any = command_output(
        "tradeoff", *KRR, "--epsilon-local", "2", "--users", "1000", "--fpr", "0.05", "--prior", "0.2"
    )
    assert visit.exact_number("#catches") == json.dumps(told["tpr"][0]["tpr"])
    words = page.inner_text("#view")
    assert "An attacker who accepts 5% false alarms catches at most" in words
    assert f"at most {told['advantage']['upper']!r}" in words
    page.wait_for_selector("text=one message, not shuffled")


def test_a_plan(visit: BrowserTab, tmp_path: Path) -> None:
    """Error and risk move with ε; the simulated collection is drawn; the plan is saved as the command writes it."""
    page = visit.open("plan")
    told: Any = command_output(*PLAN, "--epsilon", "1")
    awaited(page, "#error", "data-exact", json.dumps(told["mechanisms"][0]["standard_error"]))
    first = page.inner_text("#risk")
    page.fill("#f-epsilon", "0.5")
    half: Any = command_output(*PLAN, "--epsilon", "0.5")
    awaited(page, "#error", "data-exact", json.dumps(half["mechanisms"][0]["standard_error"]))
    assert float(page.inner_text("#risk")[:-1]) < float(first[:-1])
    page.wait_for_selector("figure.plot >> text=error")
    page.wait_for_selector("text=of the 95% intervals hold the truth")
    with page.expect_download() as saving:
        page.click("text=Save plan.json")
    saved = tmp_path / "plan.json"
    saving.value.save_as(saved)
    assert json.loads(saved.read_text("utf-8")) == half["plan"]


def test_all_mechanisms_are_ranked(visit: BrowserTab) -> None:
    """With progress; it can be cancelled and asked again; the table is the command's, and says when it is outdated."""
    page = visit.open("plan?task=key-value&domain=2&low=0&high=1&items=1&users=300&epsilon=2&delta=1e-4")
    visit.exact_number("#error")
    ranked = page.locator("section:has(#rank)")
    page.click("#rank")
    ranked.locator(".working >> text=/[0-9] of [0-9]/").wait_for()
    ranked.locator("text=Cancel").click()
    ranked.locator("text=Cancelled.").wait_for()
    page.click("#rank")
    ranked.locator("tbody tr.best").first.wait_for()
    told: Any = command_output(
        "plan",
        "--task",
        "key-value",
        "--domain",
        "2",
        "--low",
        "0",
        "--high",
        "1",
        "--items",
        "1",
        "--users",
        "300",
        "--epsilon",
        "2",
        "--delta",
        "1e-4",
    )
    offers = told["mechanisms"]
    assert len(offers) >= 3
    assert ranked.locator("tbody th").all_inner_texts() == [offer["name"] for offer in offers]
    shown = ranked.locator("tbody [data-exact]").evaluate_all("all => all.map(one => one.dataset.exact)")
    assert shown == [json.dumps(offer["standard_error"]) for offer in offers]
    best = [name for name in (told["best_local"], told["best_by_shuffler"]) if name]
    assert ranked.locator("tbody tr.best th").all_inner_texts() == [o["name"] for o in offers if o["name"] in best]
    assert ranked.locator("tbody tr td:last-child").all_inner_texts() == [offer["rests_on"] for offer in offers]
    page.fill("#f-epsilon", "1.5")
    ranked.locator("text=This was computed for other settings").wait_for()


def test_parameters_and_a_rate(visit: BrowserTab) -> None:
    """Those of a proof instead of a mechanism; and a secret coin for each person instead of a number of users."""
    page = visit.open("guarantee?mechanism=parameters&users=300&delta=1e-4&p=4&beta=0.5&q=4")
    raw = ("--p", "4", "--beta", "0.5", "--delta", "1e-4")
    awaited(page, "#epsilon", "data-exact", upper_of(*raw, "--q", "4", "--users", "300"))
    page.fill("#f-q", "")
    page.fill("#f-q0", "4")
    page.fill("#f-q1", "5")
    awaited(page, "#epsilon", "data-exact", upper_of(*raw, "--q0", "4", "--q1", "5", "--users", "300"))
    page.click("text=Rounds, samples, colluding users")
    page.fill("#f-of", "2000")
    page.fill("#f-rate", "0.1")
    awaited(page, "#epsilon", "data-exact", upper_of(*raw, "--q0", "4", "--q1", "5", "--of", "2000", "--rate", "0.1"))
    assert page.locator(".segments button").all_inner_texts() == ["rounds", "δ(ε)"]
    page.fill("#f-beta", "2")
    page.wait_for_selector("#problem:has-text('beta')")


def test_mixed_crowds(visit: BrowserTab) -> None:
    """A user of each group has her own ε."""
    page = visit.open("crowd?groups=1%3A500%3B2%3A500&options=4&delta=1e-6")
    told: Any = command_output(
        "crowd",
        "--mechanism",
        "krr",
        "--set",
        "options=4",
        "--group",
        "1:500",
        "--group",
        "2:500",
        "--delta",
        "1e-6",
        "--effort",
        "quick",
    )
    page.wait_for_selector("#view table")
    shown = page.eval_on_selector_all("#view tbody [data-exact]", "all => all.map(one => one.dataset.exact)")
    assert shown == [json.dumps(group["epsilon"]["upper"]) for group in told["groups"]]
    page.click("text=Add a group")
    page.wait_for_selector("#view tbody tr >> nth=2")


def test_a_survey(visit: BrowserTab) -> None:
    """Several questions under one promise, planned with progress."""
    asked = "krr%3Acity%3A1%3Adomain%3D2%3Bkrr%3Apet%3A1%3Adomain%3D2"
    page = visit.open(f"crowd?what=survey&users=300&delta=1e-4&questions={asked}")
    page.click("#survey")
    page.wait_for_selector("#view tbody tr.best")
    assert "± " in page.inner_text("#view tbody tr.best")
    assert "--question=krr:city:1:domain=2" in page.inner_text("#view")


def test_the_proof_and_what_is_taken_home(visit: BrowserTab, tmp_path: Path) -> None:
    """A certificate that is proved again, and a statement to sign."""
    page = visit.open("proof?users=1000&delta=1e-6")
    wanted = upper_of(*KRR, "--epsilon-local", "2", "--users", "1000", "--delta", "1e-6")
    awaited(page, "[data-exact]", "data-exact", wanted)
    assert wanted in page.inner_text("#view")
    page.click("text=Make a certificate")
    with page.expect_download() as saving:
        page.click("text=Save certificate.json")
    saved = tmp_path / "certificate.json"
    saving.value.save_as(saved)
    assert command_output("verify", str(saved))["verdict"] == "yes"
    page.click("text=Prove it again here")
    page.wait_for_selector("#verdict:has-text('Proved again')")
    page.click("text=Write the statement")
    page.wait_for_selector("#statement:has-text('Anyone who is 50% sure')")
    for name in ("statement.html", "statement.md"):
        with page.expect_download() as saving:
            page.click(f"text=Save {name}")
        saving.value.save_as(tmp_path / name)
        assert "honest: no user reveals their message" in (tmp_path / name).read_text("utf-8")


def test_a_watched_collection(visit: BrowserTab) -> None:
    """It is released, so that its count may be known."""
    page = visit.open("watch")
    page.wait_for_selector("text=300 users, at least 300")
    page.wait_for_selector("li.now:has-text('released')")
    assert "took part" in page.inner_text("#view")


def test_curves_are_saved_as_csv_and_svg(visit: BrowserTab, tmp_path: Path) -> None:
    """The CSV is the command's own file; the SVG is a file that needs no page."""
    page = visit.open("guarantee?users=1000&delta=1e-6&against=epsilon")
    for kind in ("CSV", "SVG"):
        with page.expect_download() as saving:
            page.click(f"figcaption >> text={kind}")
        saving.value.save_as(tmp_path / f"curve.{kind.lower()}")
    file = tmp_path / "typed.csv"
    command_output("amplify", *KRR, "--epsilon-local", "2", "--users", "1000", "--delta", "1e-6", "--effort", "quick",
            "--against", "epsilon", "--curve", str(file))  # fmt: skip
    assert (tmp_path / "curve.csv").read_text("utf-8") == file.read_text("utf-8")
    drawing = (tmp_path / "curve.svg").read_text("utf-8")
    assert drawing.startswith("<svg")
    assert "<path" in drawing
    assert "class=" not in drawing


def test_a_cancelled_computation(visit: BrowserTab) -> None:
    """It ends at once, its worker too, and the page goes on."""
    page = visit.open("guarantee?against=rounds")
    page.wait_for_selector(".working >> text=/Evaluating: [1-9]/")
    before = visit.server.children()
    page.click(".working >> text=Cancel")
    page.wait_for_selector("text=Cancelled.")
    page.fill("#f-epsilon_local", "1")
    wanted = upper_of(*KRR, "--epsilon-local", "1", "--users", "100000", "--delta", "1e-8")
    awaited(page, "#epsilon", "data-exact", wanted)
    page.wait_for_timeout(500)
    assert not before <= visit.server.children()


# --- for everybody ----------------------------------------------------------------------------------------------------


def test_by_keys_alone(visit: BrowserTab) -> None:
    """From the first link through the tabs to a slider, a plot and a button."""
    page = visit.open("guarantee")
    visit.exact_number("#epsilon")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        if seen[-1] == "users" and seen.count("users") == 2:
            page.keyboard.press("End")
    for wanted in ("plan", "risk", "mechanism", "epsilon_local", "users", "delta", "Copy link to this"):
        assert wanted in seen, seen
    assert page.input_value("#f-users") == "1e9"
    page.focus("#tabs a[data-view=risk]")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('What an attacker can do')")
    visit.exact_number("#catches")


VIEWS = ("plan", "guarantee", "risk", "crowd", "proof", "watch")
SETTLED = {"plan": "#error", "guarantee": "#epsilon", "risk": "#catches", "crowd": "#worst", "proof": ".facts",
           "watch": ".steps"}  # fmt: skip


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """From the registry, once a session."""
    return axe_source(tmp_path_factory.mktemp("axe"))


@pytest.fixture(scope="module", params=["light", "dark"])
def small(chromium: Browser, server: PageServer, request: pytest.FixtureRequest) -> Iterator[BrowserTab]:
    """A phone, by day and by night."""
    context = chromium.new_context(viewport=PHONE, color_scheme=request.param, bypass_csp=True, reduced_motion="reduce")
    made = BrowserTab(context.new_page(), server)
    yield made
    context.close()


@pytest.mark.parametrize("view", VIEWS)
def test_on_a_phone_and_accessible(small: BrowserTab, axe: str, view: str) -> None:
    """Nothing is wider than 360 pixels, colours follow the system, and axe finds nothing serious."""
    page = small.open(view)
    page.wait_for_selector(SETTLED[view])
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    dark = page.evaluate("() => matchMedia('(prefers-color-scheme: dark)').matches")
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in re.findall(r"\d+", ground)[:3])
    assert (light < 150) == dark
    page.evaluate(axe)
    found = page.evaluate("async () => (await axe.run()).violations")
    serious = [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found
               if one["impact"] in ("serious", "critical")]  # fmt: skip
    assert serious == []


def test_nothing_moves_for_those_who_do_not_want_it(visit: BrowserTab) -> None:
    """The browser asks for reduced motion here; the page has none left."""
    page = visit.open("guarantee?against=rounds")
    page.wait_for_selector(".bar i")
    assert page.eval_on_selector(".bar i", "one => getComputedStyle(one).animationName") == "none"


def test_it_prints_without_the_form(visit: BrowserTab) -> None:
    """What is printed is the answer with its conditions."""
    page = visit.open("proof")
    page.wait_for_selector(".facts")
    page.emulate_media(media="print")
    assert not page.is_visible("#form")
    assert page.is_visible("text=The shuffler reveals neither the order")
