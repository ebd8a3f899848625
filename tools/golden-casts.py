"""Records what PyTorch makes of float32 values in float16 and bfloat16, and back.

Run from the repository root, with PyTorch 2.15:

    python tools/golden-casts.py

It rewrites test/golden/casts.json. Values are their bits in hexadecimal, separated by spaces; a NaN
is `nan`, since its bits differ from one machine to another.
"""

import json
import pathlib

import numpy
import torch

OUTPUT = pathlib.Path(__file__).parents[1] / "test/golden/casts.json"


def float32_bits():
    """Corners of both formats, each with its neighbours, and a spread over all exponents."""
    corners = [
        0, 1e-45, 2**-133, 2**-134, 2**-126, 2**-24, 2**-25, 3 * 2**-25, 2**-15, 2**-14,
        1 - 2**-12, 1, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 2049, 65504, 65519,
        65520, 65536, 3.3895e38, 3.3961776e38, 3.4028234e38,
    ]
    bits = []
    for corner in corners:
        exact = int(numpy.float32(corner).view(numpy.uint32))
        bits += [max(exact - 1, 0), exact, min(exact + 1, 0x7F800000)]
    word = 12345
    for exponent in range(0, 255, 2):
        word = (word * 1664525 + 1013904223) % 2**32
        bits.append((exponent << 23) | (word >> 9))
    bits += [0x7F800000, 0x7FC00000, 0x7F800001]
    return bits + [each | 0x80000000 for each in bits]


def words(array, digits):
    whole = {4: numpy.uint16, 8: numpy.uint32}[digits]
    numbers = array.to(torch.float32).numpy()
    raw = array.view(torch.int16 if digits == 4 else torch.int32).numpy().view(whole)
    return " ".join("nan" if numpy.isnan(x) else f"{int(b):0{digits}x}" for x, b in zip(numbers, raw))


values = torch.from_numpy(numpy.array(float32_bits(), dtype=numpy.uint32).view(numpy.float32).copy())
golden = {"torch": torch.__version__, "f32": " ".join(f"{b:08x}" for b in float32_bits())}
for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16)]:
    low = values.to(dtype)
    golden[name] = {"low": words(low, 4), "back": words(low.to(torch.float32), 8)}
OUTPUT.write_text(json.dumps(golden, indent=2) + "\n")
