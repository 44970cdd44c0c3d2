"""The store in a PostgreSQL database, which servers on several machines share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import compress

from shuffledp.collection.postgres_session import PostgresSession
from shuffledp.service.campaign import Campaign
from shuffledp.service.store import (
    Accepted,
    Piece,
    Round,
    State,
    Store,
    Unavailable,
    fitting,
    segments_of,
    stored_campaign,
)

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS shuffledp_campaigns (
      id text PRIMARY KEY, place bigint GENERATED ALWAYS AS IDENTITY, content bytea NOT NULL, ledger text)""",
    "CREATE TABLE IF NOT EXISTS shuffledp_sizes (campaign text PRIMARY KEY, report bigint NOT NULL)",
    """CREATE TABLE IF NOT EXISTS shuffledp_rounds (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, campaign text NOT NULL, number bigint NOT NULL,
      state text NOT NULL, closes bigint NOT NULL, extended bigint NOT NULL, notice bytea NOT NULL, statement bytea,
      UNIQUE (campaign, number))""",
    "CREATE TABLE IF NOT EXISTS shuffledp_segments (round bigint NOT NULL, content bytea NOT NULL)",
    """CREATE TABLE IF NOT EXISTS shuffledp_held (
      round bigint NOT NULL, writer text NOT NULL, bytes bigint NOT NULL, PRIMARY KEY (round, writer))""",
    # What is sealed cannot be compressed.
    "ALTER TABLE shuffledp_segments ALTER COLUMN content SET STORAGE EXTERNAL",
)
COLUMNS = "campaign, number, state, closes, extended, notice, statement"
OF_ROUND = "round = (SELECT id FROM shuffledp_rounds WHERE campaign = %s AND number = %s)"
# Whoever ends the round waits for this row, and whoever waited for the end finds it closed.
# What it has is counted by each connection in a row of its own: with one row for all they would wait for each other.
APPEND = (
    "WITH stored AS (INSERT INTO shuffledp_segments (SELECT id, %b FROM shuffledp_rounds "
    "WHERE campaign = %s AND number = %s AND state = 'open' AND closes > %s FOR SHARE) RETURNING round) "
    "INSERT INTO shuffledp_held SELECT round, %s, %s FROM stored "
    "ON CONFLICT (round, writer) DO UPDATE SET bytes = shuffledp_held.bytes + excluded.bytes"
)
HELD = f"SELECT sum(bytes)::bigint FROM shuffledp_held WHERE {OF_ROUND}"
# Where an earlier version stored them.
COUNT = (
    "INSERT INTO shuffledp_held SELECT id, '', coalesce(sum(length(content)), 0) FROM shuffledp_rounds "
    "LEFT JOIN shuffledp_segments ON round = id WHERE campaign = %s AND number = %s GROUP BY id ON CONFLICT DO NOTHING"
)
SEGMENTS_AT_A_TIME = 16
LOCK = "shuffledp rounds"


class PostgresStore(Store):
    """A connection to the database at ``url``; its tables are made if they are not there."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._session = PostgresSession(url, SCHEMA, "shuffledp_held", _failed)
        self._writer = os.urandom(8).hex()
        self._campaigns: dict[str, Campaign] = {}

    def _read(self, id_: str, content: bytes) -> Campaign:
        """Campaigns never change: each is read once."""
        if id_ not in self._campaigns:
            self._campaigns[id_] = stored_campaign(id_, content)
        return self._campaigns[id_]

    def accept(self, accepted: Accepted) -> None:
        campaign = accepted.campaign
        row, size = (campaign.id, campaign.content, accepted.ledger), (campaign.id, campaign.report_bytes)
        self._session.change_all([
            ("INSERT INTO shuffledp_campaigns (id, content, ledger) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", row),
            ("INSERT INTO shuffledp_sizes VALUES (%s, %s) ON CONFLICT DO NOTHING", size),
        ])  # fmt: skip

    def accepted(self) -> list[Accepted]:
        found = self._session.rows("SELECT id, content, ledger FROM shuffledp_campaigns ORDER BY place")
        return [Accepted(self._read(id_, content), ledger) for id_, content, ledger in found]

    def campaign(self, id_: str) -> Campaign | None:
        found = self._session.rows("SELECT content FROM shuffledp_campaigns WHERE id = %s", (id_,))
        return self._read(id_, found[0][0]) if found else None

    def _stored_bytes(self, id_: str) -> int | None:
        found = self._session.rows("SELECT report FROM shuffledp_sizes WHERE campaign = %s", (id_,))
        return int(found[0][0]) if found else None

    def open_round(self, opened: Round) -> bool:
        return (
            self._session.change(
                f"INSERT INTO shuffledp_rounds ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, NULL) "
                "ON CONFLICT DO NOTHING",
                (opened.campaign, opened.number, opened.state.value, opened.closes, opened.extended, opened.notice),
            )
            == 1
        )

    def rounds(self, campaign: str) -> list[Round]:
        found = self._session.rows(
            f"SELECT {COLUMNS} FROM shuffledp_rounds WHERE campaign = %s ORDER BY number", (campaign,)
        )
        return [Round(id_, number, State(state), *rest) for id_, number, state, *rest in found]

    def move(self, before: Round, after: Round) -> bool:
        return (
            self._session.change(
                "UPDATE shuffledp_rounds SET state = %s, closes = %s, extended = %s, notice = %s, statement = %s "
                "WHERE campaign = %s AND number = %s AND state = %s AND closes = %s",
                (
                    *(after.state.value, after.closes, after.extended, after.notice, after.statement),
                    *(before.campaign, before.number, before.state.value, before.closes),
                ),
            )
            == 1
        )

    def append(self, pieces: Sequence[Piece], now: float) -> list[bool]:
        keys = {(piece.campaign, piece.number) for piece in pieces}
        fits = fitting(pieces, {key: self._most_bytes(key[0]) - self._held(*key) for key in keys})
        segments = list(segments_of(list(compress(pieces, fits))))
        if not segments:
            return fits
        changed = self._session.change_all([
            (APPEND, (content, campaign, number, now, self._writer, len(content)))
            for campaign, number, content in segments
        ])  # fmt: skip
        taken = {(campaign, number): rows == 1 for (campaign, number, _), rows in zip(segments, changed, strict=True)}
        return [fit and taken[piece.campaign, piece.number] for piece, fit in zip(pieces, fits, strict=True)]

    def _held(self, campaign: str, number: int) -> int:
        """Bytes that a round has."""
        ((found,),) = self._session.rows(HELD, (campaign, number))
        if found is None:
            self._session.change(COUNT, (campaign, number))
            ((found,),) = self._session.rows(HELD, (campaign, number))
        return int(found or 0)

    def size(self, campaign: str, number: int) -> int:
        found = self._session.rows(
            f"SELECT coalesce(sum(length(content)), 0)::bigint FROM shuffledp_segments WHERE {OF_ROUND}",
            (campaign, number),
        )
        return int(found[0][0])

    def reports(self, campaign: str, number: int) -> Iterator[bytes]:
        query = f"SELECT content FROM shuffledp_segments WHERE {OF_ROUND}"
        for (content,) in self._session.stream(query, (campaign, number), SEGMENTS_AT_A_TIME):
            yield content

    def forget_reports(self, campaign: str, number: int) -> None:
        self._session.change(f"DELETE FROM shuffledp_segments WHERE {OF_ROUND}", (campaign, number))
        self._session.change(f"DELETE FROM shuffledp_held WHERE {OF_ROUND}", (campaign, number))

    def alone(self) -> AbstractContextManager[None]:
        return self._session.alone(LOCK)

    def close(self) -> None:
        self._session.close()


def _failed(words: str) -> Unavailable:
    return Unavailable(f"shuffler: the database cannot be used now: {words}.")
