"""Writes files of token data sets as Megatron does, which packages/data/test/datasets.test.ts reads.

Run from the repository root, with megatron-core 0.16 and PyTorch:

    python tools/golden-data-files.py

It rewrites packages/data/test/golden/megatron.bin and .idx: the texts [1, 2, 3], [65000] and [7, 8] in two documents.
"""

import pathlib

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder

PREFIX = pathlib.Path(__file__).parents[1] / "packages/data/test/golden/megatron"

builder = IndexedDatasetBuilder(f"{PREFIX}.bin", dtype=numpy.uint16)
builder.add_item(torch.tensor([1, 2, 3]))
builder.end_document()
builder.add_item(torch.tensor([65000]))
builder.add_item(torch.tensor([7, 8]))
builder.end_document()
builder.finalize(f"{PREFIX}.idx")
