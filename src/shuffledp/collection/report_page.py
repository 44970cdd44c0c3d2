"""report.md: a collection on one page, for whoever reads its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffledp.collection.estimate_text import TABLES, tables
from shuffledp.document import GUARANTEE_DIGITS, epsilon_text, rounded_down, rounded_up, settings_text
from shuffledp.escaping import markdown
from shuffledp.statement.citation import sources_of
from shuffledp.statement.page import table

if TYPE_CHECKING:
    from shuffledp.collection.report import Report


def page(report: Report, proof: str, drawn: bool) -> str:
    """The page, with what is said of the certificate, and with the picture where there is one."""
    plan = report.guarantee.plan
    parts = [
        f"# Collection: {markdown(plan.task.name)}",
        "## What is promised",
        markdown(report.statement()),
        markdown(report.parties),
        "It holds if",
        _listed(report.guarantee.conditions()),
        table(("", ""), _facts(report, proof)),
        _listed(sources_of(report.guarantee.stated.theorem)),
        "## Estimates",
        f"Each interval holds the true value with confidence {report.manner.sure}. All estimates are in {TABLES}."
        f"{_of_those_asked(report)}",
        report.manner.post_words,
        *tables(report.quantities),
        "![estimates](estimates.png)" if drawn else "",
    ]
    if report.standing is not None:
        parts += ["## Ledger", markdown(report.standing.words())]
    return "\n\n".join(filter(None, parts)) + "\n"


def _facts(report: Report, proof: str) -> list[tuple[str, str]]:
    plan, held = report.guarantee.plan, report.guarantee
    lower, mechanism = held.stated.lower, plan.mechanism.document()
    attained = "none known" if lower is None else rounded_down(lower)
    return [
        ("population", plan.population),
        *report.turnout(" that took part"),
        ("central ε, guaranteed", epsilon_text(held.stated.upper, GUARANTEE_DIGITS)),
        *report.promised([("an attack on a constructed dataset achieves", attained)]),
        ("local ε", "none" if plan.mechanism.local_epsilon is None else rounded_up(plan.mechanism.local_epsilon)),
        ("messages a user", f"{plan.mechanism.messages_per_user:,.4g}"),
        ("noise is drawn by", "the shuffler" if plan.mechanism.crowd.by_shuffler else "the users"),
        ("mechanism", f"{mechanism['name']} {settings_text(mechanism['settings'])}".strip()),
        ("bound", f"{held.stated.bound}: {held.stated.theorem}"),
        ("certificate", proof),
        *((f"messages {name}", f"{number:,}") for name, number in report.set_aside().items()),
        *((f"largest standard error{_of(name)}", f"{error:.6g}") for name, error in report.errors().items()),
        *((f"promised {name.replace('_', ' ')}", f"{number:.6g}") for name, number in plan.promise.items()),
        ("engine", report.engine),
    ]


def _of(question: str) -> str:
    return f" of {question}" if question else ""


def _listed(sentences: tuple[str, ...] | list[str]) -> str:
    return "\n".join(f"- {markdown(sentence)}" for sentence in sentences)


def _of_those_asked(report: Report) -> str:
    """Which options these are, where not all of them."""
    if report.asked is None:
        return ""
    size = report.guarantee.plan.task.domain.size
    return f" They are of the {report.asked:,} options that were asked for, of {size:,} in all."
