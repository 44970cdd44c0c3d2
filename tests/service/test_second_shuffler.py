"""Why a second shuffler behind the first would promise nothing against a first one that cheats: docs/shuffler.md."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from shuffledp.service.crypto import MESSAGE_LABEL, PrivateKey, build_context
from shuffledp.service.notices_and_statements import BatchStatement, RoundNotice
from shuffledp.service.sealing import seal_reports
from tests.collection import read_messages
from tests.service import ANALYST, SHUFFLER, create_campaign, plan_for
from tests.service.test_round import NOW, USERS, Shuffler


def opened(second: Shuffler) -> Counter[bytes]:
    """What the analyst reads of a batch."""
    sealed = read_messages(second.paths.batch_directory(second.round()), second.campaign.message_bytes)
    rows = np.frombuffer(b"".join(sealed), dtype=np.uint8).reshape(len(sealed), -1)
    found, good = ANALYST.private_key.open_rows(build_context(MESSAGE_LABEL, second.campaign.id, 1), rows)
    assert good.all()
    return Counter(row.tobytes() for row in found)


def test_the_first_of_two_can_put_its_own_in_the_place_of_all_but_one(tmp_path: Path) -> None:
    """Whoever hands sealed messages on can drop those of others and seal as many of its own. The second one, which
    compares, opens, counts and keeps to the minimum, sees a batch like any other; with the analyst the first one takes
    its own away again, and what is left is one person's message."""
    second = Shuffler(tmp_path, create_campaign(plan_for(USERS, minimum=30)))
    mechanism, notice = second.campaign.plan.mechanism, second.notice()
    drawn = mechanism.pack(mechanism.encode(np.array([1] + [0] * (USERS - 1))))
    for report in seal_reports(second.campaign, notice, drawn):
        assert second.post(report.tobytes())
    second.turn()
    told = BatchStatement.from_signed(second.campaign, second.round().statement or b"")
    assert (told.manifest.users, told.repeated, told.refused) == (USERS, 0, 0)
    of_the_first = Counter(row.tobytes() for row in drawn[1:])
    assert opened(second) - of_the_first == Counter([drawn[0].tobytes()])


def test_a_second_one_could_give_each_client_a_key_of_her_own(tmp_path: Path) -> None:
    """A client cannot tell: every notice that the shuffler signs is as good. What opens with one key alone is then one
    person's, whoever mixed it before."""
    shuffler = Shuffler(tmp_path, create_campaign())
    keys = [PrivateKey.new() for _ in range(2)]
    notices = [RoundNotice(shuffler.campaign.id, 1, NOW, NOW + 3600, key.public_key).sign(SHUFFLER) for key in keys]
    read = [RoundNotice.from_signed(shuffler.campaign, notice) for notice in notices]
    assert [notice.key for notice in read] == [key.public_key for key in keys]


def test_therefore_a_campaign_has_one() -> None:
    """And says where to read why."""
    document = create_campaign().document
    with pytest.raises(ValueError, match=r"expected one shuffler, got 2; docs/shuffler\.md says why"):
        create_campaign().from_document(document | {"hops": document["hops"] * 2})
