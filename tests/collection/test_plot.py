"""Pictures that fit the task: what is drawn how, what is said below, and every script without a warning."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shuffledp.collection.plots import BASE_FONT, MAX_LABEL_LENGTH, FontSelection, _find_fonts, _read_letters
from shuffledp.collection.report import Report
from shuffledp.tasks.base import COORDINATES, COUNTS, NUMBERS, Quantity, Shape, count_shape
from tests.collection.task_cases import CASES, collect_report

NOTE = re.compile(r"narrower than the (dots|lines)|±")


def texts_of(figure: Any) -> str:
    """All that is written in a picture."""
    return "\n".join(text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text")))


def showing(*quantities: Quantity) -> Report:
    """A report of these quantities."""
    return dataclasses.replace(collect_report("numbers"), quantities=quantities)


@pytest.mark.exhaustive("survey")
@pytest.mark.parametrize("name", CASES)
def test_every_task_is_drawn(name: str, tmp_path: Path) -> None:
    """Warnings are errors here; ε, δ and n stand above."""
    figure = collect_report(name).plot(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes()[:4] == b"\x89PNG"
    written = texts_of(figure)
    users = collect_report(name).guarantee.users
    assert f"δ = 0.001{' over 2 rounds' if name == 'search' else ''}, n = {users:,}" in written
    assert "ε" in written


@pytest.mark.parametrize(("name", "columns"), [("frequency", "value"), ("map", "lat, lon"), ("vector", "bill, mass")])
def test_the_column_stands_above(name: str, columns: str) -> None:
    assert f"{CASES[name].task.name} of {columns}\n" in texts_of(collect_report(name).plot())


@pytest.mark.parametrize("name", ["frequency", "numbers", "sets"])
def test_counts_are_bars_from_zero(name: str) -> None:
    """Each as long as its estimate."""
    (axes,) = collect_report(name).plot().axes
    (quantity,) = collect_report(name).quantities
    across = name != "numbers"
    ends = [bar.get_width() if across else bar.get_height() for bar in axes.patches]
    assert sorted(ends) == pytest.approx(sorted(quantity.value))
    assert {bar.get_x() if across else bar.get_y() for bar in axes.patches} == {0.0}
    if name == "numbers":
        assert ends == pytest.approx(quantity.value)


def test_a_histogram_has_its_running_count_below() -> None:
    """The finest level that can be drawn, and the same counts in parts of all users."""
    above, below, *_ = collect_report("ranges").plot().axes
    assert len(above.patches) == 32
    (line,) = [line for line in below.lines if len(line.get_ydata()) == 64]
    assert line.get_ydata()[-1] == 600
    assert below.collections
    assert below.get_ylim()[0] <= 0.0


def test_letters_in_cells_can_be_read() -> None:
    """White or dark, whichever has the larger contrast on the cell's colour (WCAG 2), and never below 3."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    def light(colour: Any) -> float:
        parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    def contrast(one: Any, other: Any) -> float:
        dark, bright = sorted((light(one), light(other)))
        return (bright + 0.05) / (dark + 0.05)

    shape = Shape(COUNTS, 0.0, 100.0, sizes=(4, 10))
    value = np.linspace(2.5, 100.0, 40)
    labels = tuple(f"{row} × {column}" for row in range(4) for column in range(10))
    axes, *_ = showing(Quantity("users", labels, value, value, value - 1, value + 1, shape=shape)).plot().axes
    written = [text for text in axes.texts if "±" in text.get_text()]
    assert len(written) == 40
    for text, share in zip(written, value / 100.0, strict=True):
        behind = colormaps["Blues"](share)[:3]
        assert contrast(text.get_color(), behind) >= max(3.0, 0.9 * contrast("white", behind))


def test_a_map_has_a_cell_for_each_place() -> None:
    """As wide as it is on the ground, south below; counts and intervals are written, or the widest interval is said."""
    figure = collect_report("map").plot()
    (image,) = figure.axes[0].images
    np.testing.assert_array_equal(image.get_array(), collect_report("map").quantities[0].value.reshape(3, 3))
    assert (image.origin, list(image.get_extent())) == ("lower", [0.0, 10.0, 40.0, 50.0])
    assert figure.axes[0].get_aspect() == pytest.approx(1 / np.cos(np.radians(45)))
    assert texts_of(figure).count("±") == 10
    assert "± at most" in texts_of(collect_report("large map").plot())


def test_coordinates_stand_in_their_order_each_in_its_own_range() -> None:
    """From above; many of them as a line."""
    axes = collect_report("vector").plot().axes
    assert [label.get_text() for label in axes[0].get_yticklabels()] == ["bill (mm)", "mass (g)"]
    places = axes[0].lines[0].get_xdata()
    assert ((places >= 0) & (places <= 1)).all()
    (line,) = collect_report("long vector").plot().axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), collect_report("long vector").quantities[0].value)


def test_means_stand_beside_their_counts_in_the_same_order() -> None:
    counts, means = collect_report("pairs").plot().axes
    names = [[label.get_text() for label in axes.get_yticklabels()] for axes in (counts, means)]
    assert names[0] == names[1]
    assert len(means.patches) == 0


@pytest.mark.parametrize("kind", [NUMBERS, COORDINATES])
def test_intervals_narrower_than_dots_are_said(kind: str) -> None:
    """All of them, some, or none."""
    value, shape = np.array([0.0, 100.0]), Shape(kind, 0.0, 100.0, ordered=True)

    def said(*reach: float) -> str:
        half = np.array(reach)
        return texts_of(
            showing(Quantity("mean", ("a", "b"), value, half, value - half, value + half, shape=shape)).plot()
        )

    assert "The 95% intervals are narrower than the dots." in said(0.01, 0.01)
    assert "Some 95% intervals are narrower than the dots." in said(0.01, 20.0)
    assert "narrower" not in said(20.0, 20.0)


def test_bars_without_intervals_say_nothing_of_them() -> None:
    shape = count_shape(10, all_in_one=False)
    written = texts_of(showing(Quantity("users", ("a", "b"), np.array([3.0, 7.0]), shape=shape)).plot())
    assert "interval" not in written


def test_of_many_the_largest_are_drawn() -> None:
    """And it is said how many there are."""
    labels = tuple(f"tag {place}" for place in range(100))
    value = np.arange(100.0)
    shape = count_shape(5000, all_in_one=True)
    figure = showing(Quantity("users", labels, value, None, value - 5, value + 5, shape=shape)).plot()
    assert "largest 30 of 100" in texts_of(figure)
    assert figure.axes[0].get_yticklabels()[0].get_text() == "tag 99"


def test_adjusted_values_are_marked() -> None:
    assert "adjusted (consistent), post-processing" in texts_of(collect_report("numbers", post="consistent").plot())
    assert "adjusted" not in texts_of(collect_report("numbers").plot())


# --- letters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Zürich", "Zürich"),
        ("दिल्ली", "dillii"),
        ("서울", "seoul"),
        ("とうきょう", "toukiyou"),
        ("東京", "U+6771 U+4EAC"),
        ("北京市", "U+5317 U+4EAC U+5E02"),
        ("🚀", "[rocket]"),
        ("a\tb", r"a\tb"),
        ("a\u202eb", r"a\u202eb"),
        ("$5", r"\$5"),
        ("x" * 60, "x" * (MAX_LABEL_LENGTH - 1) + "…"),
        ("१२", "12"),
    ],
)
def test_what_no_font_has_is_spelled_out(text: str, read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By sound, by name, or by number, as if the machine had the one font that comes with matplotlib."""
    own = {BASE_FONT: _find_fonts()[BASE_FONT]}
    monkeypatch.setattr("shuffledp.collection.plots._find_fonts", lambda: own)
    assert FontSelection.from_texts([text]).format_label(text) == read


def test_another_font_that_has_the_letters_is_taken() -> None:
    """Whatever letter some other font of this machine has and the usual one does not."""
    usual = _read_letters(BASE_FONT)
    others = {family: _read_letters(family) - usual for family in _find_fonts() if family != BASE_FONT}
    family, letters = next((family, letters) for family, letters in others.items() if letters)
    letter = min(letter for letter in letters if letter.isprintable() and not letter.isspace())
    found = FontSelection.from_texts([f"a{letter}"])
    assert not found.has_spelled_letters
    assert letter in found.format_label(f"a{letter}")
    assert any(letter in _read_letters(one) for one in found.families[1:])
    assert family in others


def test_silent_marks_are_left_out() -> None:
    """A joiner or a mark for colour is nothing to be spelled."""
    assert FontSelection.from_texts(["a\ufe0f"]).format_label("a\ufe0f") in ("a", "a\ufe0f")


@pytest.mark.parametrize("name", CASES)
def test_nothing_written_is_cut_off(name: str) -> None:
    """Nothing is drawn within three points of the picture's edges."""
    figure: Any = collect_report(name).plot()
    figure.canvas.draw()
    drawn, edge = np.asarray(figure.canvas.buffer_rgba())[..., :3], round(3 * figure.dpi / 72)
    for side in (drawn[:edge], drawn[-edge:], drawn[:, :edge], drawn[:, -edge:]):
        assert (side == 255).all()


def test_a_value_is_written_with_the_places_that_its_interval_tells() -> None:
    """Three digits of what the interval reaches, and a minus that is one."""
    shape = Shape(NUMBERS, -1e6, 1e6)
    for value, reach, said in (
        (149.388, 19.21, "149.4  (130.2 … 168.6)"),
        (-0.01234567, 0.00123, "−0.01235  (−0.01358 … −0.01112)"),
        (25565.3, 2125.0, "25,565  (23,440 … 27,690)"),
    ):
        ends = (np.array([value - reach]), np.array([value + reach]))
        assert said in texts_of(
            showing(Quantity("mean", ("mean",), np.array([value]), None, *ends, shape=shape)).plot()
        )
