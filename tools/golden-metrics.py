"""Records what scikit-learn computes of predictions, which packages/data/test/metrics.test.ts compares with.

Run from the repository root, with scikit-learn 1.9:

    python tools/golden-metrics.py

It rewrites packages/data/test/golden/metrics.json: for two, four and five classes, scores [rows, classes] and labels [rows],
and the accuracy, F1 of each average, and, for two classes, the area under the curve of the second score. Scores are
rounded, so that many are equal. The third class has no labels beyond two classes. Of four classes, it is not predicted
either; of five, it is, and the last one has labels and is never predicted.
"""

import json
import pathlib

import numpy
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/data/test/golden/metrics.json"
random = numpy.random.default_rng(0)


def case(rows, classes):
    labels = random.integers(0, classes, rows)
    labels[labels == 2] = 0
    scores = random.normal(size=(rows, classes)) + 0.8 * numpy.eye(classes)[labels]
    if classes == 4:
        scores[:, 2] = -9
    if classes == 5:
        scores[:, 4] = -9
    scores = scores.round(1)
    predicted = scores.argmax(1)
    averages = ["macro", "micro"] + (["binary"] if classes == 2 else [])
    result = {
        "scores": scores.tolist(),
        "labels": labels.tolist(),
        "accuracy": accuracy_score(labels, predicted),
        "f1": {average: f1_score(labels, predicted, average=average) for average in averages},
    }
    if classes == 2:
        result["area"] = roc_auc_score(labels, scores[:, 1])
    return result


OUTPUT.write_text(json.dumps([case(101, 2), case(101, 4), case(101, 5)]) + "\n")
