"""Predict with a saved model, without dpstream: python read_model.py MODEL < records.csv."""

import csv
import json
import sys
import zipfile

import numpy as np

with zipfile.ZipFile(sys.argv[1]) as file:
    model = json.loads(file.read("model.json"))
    slopes, heads = (np.load(file.open(model["arrays"][name]["file"])) for name in model["arrays"])


def value(rule, cell):
    if "values" in rule and cell:
        return rule["values"].get(cell, rule["otherwise"])
    return min(max(float(cell), rule["lower"]), rule["upper"]) if cell else rule["middle"]


for row in csv.DictReader(sys.stdin):
    scores = slopes @ [value(rule, row[rule["column"]]) for rule in model["features"]] + heads
    best = int(np.argmax(scores)) if len(scores) > 1 else int(scores[0] > 0)
    number = np.exp(scores[0]) if model["link"] == "exp" else scores[0]
    print(model["classes"][best] if model["classes"] else number)
