"""One operation each, where its derivative jumps or is none."""

from programs.program import record

LINE = "nan -inf inf 0 -0 1 -1 2 0.5 -0.5"
PAIRS = [(a, b) for a in "nan inf -inf 0 -0 1 -1 2".split() for b in "nan inf -inf 0 -0 1 -1 2".split()]


def line_of(values, flags=" g"):
    return f"f32 {len(values)}{flags}: {' '.join(values)}"


def kinks():
    programs = []

    def add(inputs, do, roots=None):
        roots = [len(inputs) + len(do) - 1] if roots is None else roots
        programs.append(record({"in": inputs, "do": do, "roots": roots, "reads": []}, check=False))

    line = line_of(LINE.split())
    for name in "neg abs sign exp log sqrt rsqrt sin cos tanh erf floor ceil square sigmoid softplus silu".split():
        add([line], [f"{name} 0"])
    add([line_of("nan -inf inf 0 1 -1".split())], ["relu 0"])
    for approximate in ("none", "tanh"):
        add([line_of("nan 0 1 -1 -2 10".split())], [f"gelu 0 approximate={approximate}"])
    add([line], ["clamp 0 low=-1 high=1"])
    add([line], ["clamp 0 low=0 high=0"])
    for exponent in ("2", "3", "1", "0", "-1", "-2"):
        add([line], [f"pow 0 #{exponent}"])
    for exponent in ("0.5", "1.5", "-0.5"):
        add([line_of("nan inf 0 1 4 2.25".split())], [f"pow 0 #{exponent}"])
    left, right = line_of([a for a, _ in PAIRS]), line_of([b for _, b in PAIRS])
    for name in "add sub mul div pow".split():
        add([left, right], [f"{name} 0 1"])
    plain = [(a, b) for a, b in PAIRS if "-0" not in (a, b)]
    for name in ("maximum", "minimum"):
        add([line_of([a for a, _ in plain]), line_of([b for _, b in plain])], [f"{name} 0 1"])
    add([left, right], ["lt 0 1", "where 2 0 1"])
    add([left, right], ["eq 0 1", "where 2 0 #0"])
    rows = "f32 6x3 g: 1 1 0 nan 1 nan inf inf 1 -inf -inf -inf 0 0 0 2 2 2"
    for name in ("max", "min", "sum", "mean"):
        add([rows], [f"{name} 0 dims=1"])
        add([rows], [f"{name} 0 dims=0"])
    add(["f32 3x2 g: 1 1 0 nan 2 -2"], ["variance 0 dims=1 correction=1"])
    add(["f32 2x1 g: 3 0"], ["variance 0 dims=1 correction=1"])
    add(["f32 2x1 g: 3 0"], ["variance 0 dims=1 correction=0"])
    for dim in (0, 1):
        add([rows, "f32 6x3 g: " + " ".join(["1"] * 18)], [f"argMax 0 dim={dim} keep=1", f"gather 1 2 dim={dim}"])
        add(["f32 2x4 g: 1 2 3 4 0.001 1000000 0.001 2"], [f"cumsum 0 dim={dim}"])
    add(["f32 4 g: 1 2 3 4", "f32 4: 1 inf 1 0"], ["cumsum 0 dim=0", "mul 2 1"])
    for name in ("softmax", "logSoftmax"):
        add(["f32 4x3 g: 1 1 1 -inf 0 0 100 -100 0 -inf -inf -inf"], [f"{name} 0 dim=1"])
        add(["f32 . g: 3"], [f"{name} 0 dim=0"])
    add(["f32 6 g: 0 0 0 100 -100 -20", "f32 6 g: 0 1 0.5 1 0 1"], ["bceLoss 0 1 reduction=none"])
    add(["f32 3 g: 0 0 0", "f32 3: 0 1 0.5"], ["bceLoss 0 1 reduction=mean"])
    add(["f32 3 g: 1 2 0", "f32 3 g: 1 0 -0"], ["l1Loss 0 1 reduction=none"])
    add(["f32 3 g: 1 2 0", "f32 3 g: 1 0 -0"], ["mseLoss 0 1 reduction=none"])
    add(["f32 3x2 g: 0 0 1 -1 -inf 0", "i32 3: 0 1 1"], ["crossEntropy 0 1 ignore=-100 smoothing=0 reduction=none"])
    add(["f32 2x2 g: 0 0 1 -1", "i32 2: -1 1"], ["crossEntropy 0 1 ignore=-1 smoothing=0 reduction=mean"])
    add(["f32 2x2 g: 0 0 1 -1", "i32 2: 0 0"], ["crossEntropy 0 1 ignore=0 smoothing=0 reduction=mean"])
    add(["f32 1x1x3x3 g: 1 1 0 1 1 0 2 2 2"], ["maxPool2d 0 kernel=2 stride=1 padding=0 dilation=1"])
    add(["f32 1x1x2x2 g: 0 -1 -1 -2"], ["maxPool2d 0 kernel=2 stride=1 padding=1 dilation=1"])
    qkv = [f"f32 1x1x3x2 g: {values}" for values in ("0 0 1 1 2 0", "1 1 1 1 0 0", "0 1 1 0 2 2")]
    add(qkv, ["attention 0 1 2 causal=1"])
    add([*qkv, "bool 3x3: 1 0 1 0 1 0 1 1 1"], ["maskedAttention 0 1 2 3"])
    add(["f32 2x3 g: 0 0 0 2 2 2", "f32 3 g: 1 1 1", "f32 3 g: 0 0 0"], ["layerNorm 0 1 2"])
    add(["f32 2x3 g: 0 0 0 2 2 2", "f32 3 g: 1 1 1"], ["rmsNorm 0 1"])
    # Two roots that share what is below them, in both orders.
    add(["f32 3 g: 0 1 -1"], ["relu 0", "mul 1 #2", "square 1"], roots=[3, 2])
    add(["f32 3 g: 0 1 -1"], ["abs 0", "sqrt 1", "maximum 1 0"], roots=[2, 3, 1])
    return programs
