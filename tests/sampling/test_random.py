"""The keyed source: the counter mode it claims to be, and streams that never meet."""

from __future__ import annotations

import copy
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from shuffledp._core.validation import Words
from shuffledp.sampling.random_sources import KeyedSource, RandomSource, SystemSource

KEY = bytes(range(32))


def block(number: int, counter: int) -> bytes:
    """One block of the stream by AES itself: number and counter, eight bytes each, encrypted."""
    encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    return encryptor.update(number.to_bytes(8, "big") + counter.to_bytes(8, "big"))


@pytest.mark.parametrize("number", [0, 1, 5 << 32, (1 << 64) - 1])
def test_words_are_aes_of_number_and_counter(number: int) -> None:
    """Against AES on single blocks, across the pieces in which words are drawn."""
    words = KeyedSource(KEY, number).words(40_001)
    stream = words.tobytes()
    for counter in (0, 1, 8191, 8192, 19_999):
        assert stream[16 * counter : 16 * counter + 16] == block(number, counter)


def test_a_source_repeats_itself_however_it_is_asked() -> None:
    """The same words in one request or in many; another key or number gives others."""
    whole = KeyedSource(KEY, 3).words(1000)
    source = KeyedSource(KEY, 3)
    parts = [source.words(count) for count in (0, 1, 2, 500, 497)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert (KeyedSource(KEY, 4).words(1000) != whole).all()
    assert (KeyedSource(KEY[::-1], 3).words(1000) != whole).all()
    assert (SystemSource().words(1000) != SystemSource().words(1000)).all()


class ListedSource(RandomSource):
    """Words from a list."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> Words:
        drawn, self.left = self.left[:count], self.left[count:]
        return np.array(drawn, dtype=np.uint64)


@pytest.mark.parametrize("units", [1, 5, (1 << 64) - 1])
def test_a_coin_is_true_for_exactly_its_share_of_the_words(units: int) -> None:
    """Of the 2^64 words those below p·2^64; a probability of 0 is never true, and of 1 always."""
    last = (1 << 64) - 1
    assert ListedSource(units - 1, units, 0, last).coins(Fraction(units, 1 << 64), 4).tolist() == [
        True, False, True, False,
    ]  # fmt: skip
    assert not ListedSource(0, last).coins(Fraction(0), 2).any()
    assert ListedSource(0, last).coins(Fraction(1), 2).all()


@pytest.mark.parametrize("bound", [3, 10, 641, (1 << 63) - 25])
def test_integers_are_uniform_to_the_last_word(bound: int) -> None:
    """Words beyond the largest multiple of the bound are drawn anew: each integer has the same number of words."""
    multiple = (1 << 64) // bound * bound
    source = ListedSource(multiple - 1, multiple, (1 << 64) - 1, bound + 2, 1)
    assert source.integers_below(bound, 3).tolist() == [bound - 1, 2, 1]


@pytest.mark.parametrize(("key", "number"), [(KEY[1:], 0), (KEY, -1), (KEY, 1 << 64)])
def test_a_bad_key_or_number_is_refused(key: bytes, number: int) -> None:
    """A sentence that does not tell the key."""
    with pytest.raises(ValueError, match=r"^KeyedSource: expected a key of 32 bytes and a number below 2\^64\.$"):
        KeyedSource(key, number)


def words_of_a_child(source: SystemSource) -> bytes:
    """Eight words that a forked child draws."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, source.words(8).tobytes())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        words = pipe.read()
    os.waitpid(child, 0)
    return words


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_children_of_a_fork_draw_words_of_their_own() -> None:
    """Twenty children and their parent; equal words of independent sources have probability 2^-500."""
    source = SystemSource()
    source.words(3)
    found = [words_of_a_child(source) for _ in range(20)]
    assert all(len(words) == 64 for words in found)
    assert len({*found, source.words(8).tobytes()}) == 21


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_child_with_the_number_of_its_parent_draws_words_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a namespace of its own a child may have the process number that its parent has outside."""
    number = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: number)
    source = SystemSource()
    assert words_of_a_child(source) != words_of_a_child(source)


def test_a_copy_of_the_system_source_draws_words_of_its_own() -> None:
    """Pools of processes and clusters send copies; a keyed source, whose copies would repeat it, is not sent."""
    source = SystemSource()
    copies = [pickle.loads(pickle.dumps(source)), copy.deepcopy(source), copy.copy(source)]
    assert len({one.words(8).tobytes() for one in (source, *copies)}) == 4
    with pytest.raises(TypeError):
        pickle.dumps(KeyedSource(KEY, 0))
