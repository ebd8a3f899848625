"""Records the event file that TensorBoard's own writer makes of some steps, after TensorBoard has read it back.

Run from the repository root, with tensorboard 2.21 and without TensorFlow:

    python tools/golden-tensorboard.py

It rewrites packages/shardwise/test/golden/tensorboard.json. Given a directory, it writes nothing, but prints the scalars that TensorBoard
reads from the event files there, such as those of a run with `--metrics tensorboard`:

    python tools/golden-tensorboard.py runs/gpt-20260131-235959
"""

import io
import json
import math
import pathlib
import sys
import tempfile

from tensorboard import version
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

OUTPUT = pathlib.Path(__file__).parents[1] / "packages/shardwise/test/golden/tensorboard.json"

# Figures as steps have them: counts above 2^24, which f32 rounds, names in other letters, steps of several bytes, losses that diverged.
STEPS = [
    {"step": 1, "endMs": 1700000000000, "figures": {"loss": 4.25, "tokens": 16777217, "stepMs": 12.5}},
    {"step": 2, "endMs": 1700000000125, "figures": {"loss": 0.1, "accuracy/train": 0.75, "精度 é": -1e-20}},
    {"step": 128, "endMs": 1700000001000.5, "figures": {"loss": "Infinity", "learningRate": 3e-4}},
    {"step": 300000, "endMs": 1700000002000, "figures": {"loss": "NaN"}},
    {"step": 4294967296, "endMs": 1700000003000, "figures": {"loss": 0, "memoryBytes": 8589934592}},
]


def events():
    yield Event(wall_time=STEPS[0]["endMs"] / 1000, file_version="brain.Event:2")
    for each in STEPS:
        values = [Summary.Value(tag=tag, simple_value=float(value)) for tag, value in each["figures"].items()]
        yield Event(wall_time=each["endMs"] / 1000, step=each["step"], summary=Summary(value=values))


def file_of(all_events):
    file = io.BytesIO()
    file.flush = lambda: None
    writer = RecordWriter(file)
    for event in all_events:
        writer.write(event.SerializeToString())
    return file.getvalue()


def text(value):
    return value if math.isfinite(value) else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")


def read(directory):
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    scalars = {}
    for tag in accumulator.Tags()["scalars"]:
        scalars[tag] = [[event.step, event.wall_time, text(event.value)] for event in accumulator.Scalars(tag)]
    # TensorBoard turns the scalars of older writers into tensors as it reads them.
    for tag in accumulator.Tags()["tensors"]:
        scalars[tag] = [
            [event.step, event.wall_time, text(event.tensor_proto.float_val[0])] for event in accumulator.Tensors(tag)
        ]
    return scalars


if len(sys.argv) > 1:
    print(json.dumps(read(sys.argv[1]), indent=2, ensure_ascii=False))
    sys.exit()
data = file_of(events())
with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "events.out.tfevents.1700000000.host.1.0").write_bytes(data)
    scalars = read(folder)
golden = {"tensorboard": version.VERSION, "steps": STEPS, "file": data.hex(), "scalars": scalars}
OUTPUT.parent.mkdir(exist_ok=True)
OUTPUT.write_text(json.dumps(golden, indent=2, ensure_ascii=False) + "\n")
