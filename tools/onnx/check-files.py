"""Checks the files of tools/onnx/write-files.ts with ONNX's own checker, and runs them with onnxruntime.

Run from the repository root, with onnx 1.22 and onnxruntime 1.30:

    python tools/onnx/check-files.py FOLDER
"""

import json
import pathlib
import sys

import numpy
import onnx
import onnxruntime

folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("*.onnx")):
    # The full check also infers all types and shapes, and compares them with those of the file.
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(str(path), load_external_data=False)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 21)], path
    session = onnxruntime.InferenceSession(str(path))
    [declared] = session.get_inputs()
    dtype = {"tensor(int64)": numpy.int64, "tensor(float)": numpy.float32}[declared.type]
    worst = 0.0
    for run in json.loads(path.with_suffix(".json").read_text()):
        given = numpy.array(run["input"]["values"], dtype).reshape(run["input"]["shape"])
        found = session.run(None, {declared.name: given})
        for output, expected in zip(found, run["outputs"], strict=True):
            assert list(output.shape) == expected["shape"], (path, output.shape, expected["shape"])
            values = numpy.array(expected["values"]).reshape(output.shape)
            error = numpy.abs(output - values) / numpy.maximum(1, numpy.abs(values))
            worst = max(worst, float(error.max()))
    assert worst < 1e-5, (path, worst)
    print(f"{path.name}: {len(model.graph.node)} nodes, largest error {worst:.1e}")
