"""What clients ask a shuffler: which round is open, and to take reports."""

from __future__ import annotations

from shuffledp.errors import ShuffledpError
from shuffledp.service.campaign import Campaign
from shuffledp.service.ingest import REPORTS_TYPE
from shuffledp.service.link import Link
from shuffledp.service.notice import LONGEST_NOTICE, Notice

CREATED, OK, NOT_FOUND, GONE, FULL = 201, 200, 404, 410, 507


class RoundOver(ShuffledpError):
    """No round takes these reports any more."""


def open_round(campaign: Campaign, link: Link) -> Notice:
    """The round that is open, as the campaign's shuffler signed it."""
    answer = link.ask("GET", f"/v1/campaigns/{campaign.id}/round", at_most=LONGEST_NOTICE)
    if answer.status == GONE:
        raise RoundOver("client: no round of the campaign is open now.")
    if answer.status != OK:
        raise ValueError(f"client: the shuffler at {link.url} does not know the campaign.")
    return Notice.read(campaign, answer.content)


def deliver(campaign: Campaign, number: int, link: Link, reports: bytes) -> None:
    """Returns once the shuffler has the reports on disk; the same bytes may be sent again at any time."""
    path = f"/v1/campaigns/{campaign.id}/rounds/{number}/reports"
    answer = link.ask("POST", path, reports, {"Content-Type": REPORTS_TYPE})
    if answer.status == GONE:
        raise RoundOver(f"client: round {number} of the campaign is closed.")
    if answer.status == FULL:
        raise ValueError(
            f"client: round {number} has taken as many reports as its campaign lets it; tell who runs the shuffler at "
            f"{link.url}."
        )
    if answer.status != CREATED:
        raise ValueError(f"client: the shuffler at {link.url} refuses the reports with status {answer.status}.")
