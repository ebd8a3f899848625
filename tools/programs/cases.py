"""One operation each, with each kind of its parameters: shapes that broadcast, dtypes, ties, empty dims, edges."""

from programs.program import record

LINE = "nan -inf inf 0 1 -1 2 0.5 -0.5 -2 3.25 -7.5 1e-6 -1e-6 20 -20"
SMALL = "f32 2x3 g: 1 -2 0.5 3 0.25 -1.5"
CUBE = "f32 2x3x2 g: " + " ".join(str((7 * i % 11 - 5) / 2) for i in range(12))
TIES = "f32 3x4 g: 1 2 1 2 0 0 0 0 nan 3 nan inf"


def cases():
    programs = []

    def add(inputs, *do, reads=()):
        root = len(inputs) + len(do) - 1
        program = {"in": inputs, "do": list(do), "roots": [root], "reads": list(reads)}
        programs.append(record(program, check=False))

    def read(inputs, *do):
        """What has no gradient."""
        value = len(inputs) + len(do) - 1
        programs.append(record({"in": inputs, "do": list(do), "roots": [], "reads": [value]}, check=False))

    def line(text):
        return f"f32 {len(text.split())} g: {text}"

    for name in "log1p expm1 log2 exp2 reciprocal tan atan sinh cosh trunc".split():
        add([line(LINE)], f"{name} 0")
        add(["i32 4: 0 1 -3 7", "f32 . g: 2"], f"{name} 0", "mul 2 1")
    for name in ("asin", "acos"):
        add([line("nan 0 1 -1 0.5 -0.5 0.999 -0.999 1.5 -1.5 inf")], f"{name} 0")
    add([line("89 -89 90 -90 88.9")], "sinh 0")
    add([line("89 -89 90 -90 88.9")], "cosh 0")
    add([line("8 1024 0.125 3 1e-40 0")], "log2 0")
    for decimals in (0, 1, 2, -1):
        add([line("0.5 1.5 2.5 -0.5 -1.5 0.25 12.345 -15 25 nan inf")], f"round 0 decimals={decimals}")
    for name in ("isNaN", "isFinite", "isInf"):
        read([line(LINE)], f"{name} 0")
        read(["i32 2: 0 7"], f"{name} 0")
    edges = line("nan 0 1 -1 2 -2 0.5 100 -100")
    known = line("0 1 -1 2 -2 0.5 100 -100")
    add([edges], "leakyRelu 0 slope=0.01")
    add([edges], "leakyRelu 0 slope=-0.5")
    add([edges], "elu 0 alpha=1")
    add([edges], "elu 0 alpha=0.3")
    add([edges], "mish 0")
    inside = line("nan inf -inf 0 -0 1 -1 2 0.5 0.25 0.999 1e-6 1e-30")
    add([inside], "logit 0")
    for eps in ("0", "1e-6", "0.25", "0.3", "0.5"):
        add([inside], f"logit 0 eps={eps}")
    add(["i32 4: 0 1 7 7", "f32 . g: 2"], "logit 0 eps=0.1", "mul 2 1")
    add([known], "hardtanh 0 low=-1 high=1")
    add([known], "hardtanh 0 low=-2 high=0.5")
    add([edges], "clampLow 0 low=0")
    add([edges], "clampHigh 0 high=0.5")
    left = line("7 -7 7 -7 5.5 1 0 3 inf nan 16777216 1")
    right = line("3 3 -3 -3 -1.5 0.1 2 inf 2 1 3 0")
    for name in ("remainder", "fmod", "atan2"):
        finite = [x.replace("inf", "4").replace("nan", "5") for x in (left, right)]
        add(finite if name == "remainder" else [left, right], f"{name} 0 1")
        add([SMALL, "f32 3 g: 2 -0.75 1"], f"{name} 0 1")
        add([SMALL], f"{name} 0 #1.75")
    for name in ("remainder", "fmod"):
        read(["i32 4: 7 -7 7 -7", "i32 4: 3 3 -3 -3"], f"{name} 0 1")
        read(["i32 4: 7 -7 7 -7"], f"{name} 0 #-3")
        add(["i32 4: 7 -7 7 -7", "f32 . g: 2.5"], f"{name} 0 1")
    add([line("0 0 0 1 1 -1 inf inf -inf"), line("1 -1 0 0 inf -inf inf -inf -inf")], "atan2 0 1")
    add([SMALL, "f32 3 g: 4 5 6"], "lerp 0 1 #0.25")
    add([SMALL, "f32 3 g: 4 5 6"], "lerp 0 1 #0.75")
    add([SMALL, "f32 3 g: 4 5 6", "f32 2x1 g: 0.25 1"], "lerp 0 1 2")
    for name in ("addcmul", "addcdiv"):
        add([SMALL, "f32 3 g: 4 5 6", "f32 2x1 g: 0.25 -2"], f"{name} 0 1 2 value=0.5")
        add([SMALL, "f32 3 g: 4 5 6", "f32 2x1 g: 0.25 -2"], f"{name} 0 1 2 value=1")

    for dims in ("", " dims=0", " dims=1", " dims=0,2", " dims=1 keep=1"):
        for name in ("std{} correction=1", "std{} correction=0", "prod{}", "logSumExp{}"):
            add([CUBE], name.format(" 0" + dims))
        for p in ("2", "1", "3", "0.5", "1.5", "inf", "-inf", "0"):
            add([CUBE], f"norm 0{dims} p={p}")
        for name in ("any", "all"):
            read(["bool 2x3x2: 0 1 0 1 1 1 0 0 0 1 1 1"], f"{name} 0{dims}")
            read([CUBE], f"{name} 0{dims}")
    zeros = "f32 4x3 g: 0 0 0 1 0 2 3 0 0 1 2 4"
    add([zeros], "prod 0 dims=1")
    add([zeros], "prod 0 dims=0")
    add([zeros], "cumProd 0 dim=1")
    add([zeros], "cumProd 0 dim=0")
    for p in ("2", "1", "3", "0.5", "inf", "0"):
        add(["f32 2x3 g: 0 0 0 1 0 -2"], f"norm 0 dims=1 p={p}")
    add(["f32 2x3 g: 2 2 2 1 2 4"], "std 0 dims=1 correction=1")
    add(["f32 4x3 g: -inf -inf -inf inf 0 1 nan 0 1 -inf 0 200"], "logSumExp 0 dims=1")
    read(["i32 2x3: 1 2 3 4 5 100000"], "prod 0 dims=1")
    read(["i32 2x3: 1 2 3 4 5 6"], "cumProd 0 dim=1")
    read(["bool 3: 1 1 0"], "prod 0")
    for name in ("prod", "any", "all"):
        read(["f32 2x0: "], f"{name} 0 dims=1")
        read(["f32 2x0: "], f"{name} 0")
    for name in ("prod", "logSumExp", "sum"):
        add(["f32 2x0 g: "], f"{name} 0 dims=1")
        add(["f32 2x0 g: "], f"{name} 0 dims=0")
        add(["f32 2x0 g: "], f"{name} 0 keep=1")
    for name in ("softmax", "logSoftmax"):
        add(["f32 2x0 g: "], f"{name} 0 dim=1")
        add(["f32 2x0 g: "], f"{name} 0 dim=0")

    for dim in (0, 1):
        for down in ("", " down=1"):
            add([TIES], f"sortValues 0 dim={dim}{down}")
            read([TIES], f"argSort 0 dim={dim}{down}")
            add([TIES], f"topKValues 0 k=2 dim={dim}{down}")
            read([TIES], f"topKIndices 0 k=2 dim={dim}{down}")
        for name in ("maxValues", "minValues"):
            add([TIES], f"{name} 0 dim={dim}")
            add([TIES], f"{name} 0 dim={dim} keep=1")
        for name in ("maxIndices", "minIndices", "argMin"):
            read([TIES], f"{name} 0 dim={dim} keep=1")
            read(["i32 2x3: 3 -1 3 -1 0 0"], f"{name} 0 dim={dim}")
    read(["i32 2x3: 3 -1 3 -2147483648 0 2147483647"], "sortValues 0 dim=1")
    read(["bool 4: 1 0 1 0"], "argSort 0 dim=0")
    read(["f32 2x0: "], "sortValues 0 dim=1")
    read([TIES], "argMaxAll 0")
    read([TIES], "argMinAll 0")
    add(["f32 3x4 g: 4 1 3 2 5 7 6 8 nan 1 2 3"], "medianValues 0 dim=1")
    add(["f32 3x4 g: 4 1 3 2 5 7 6 8 9 11 12 13"], "medianValues 0 dim=0")
    read(["i32 6: 0 3 1 3 3 0"], "binCount 0 length=5")
    read(["i32 0: "], "binCount 0 length=2")
    values = line("0 0.1 0.3 0.5 0.7 1 0.9999999 -0.1 1.1 0.2 0.6")
    read([values], "histogram 0 bins=10 low=0 high=1")
    read([values], "histogram 0 bins=3 low=0.1 high=0.7")

    for part in (0, 1, 2):
        add(["f32 5x2 g: 0 1 2 3 4 5 6 7 8 9"], f"chunkAt 0 chunks=3 dim=0 part={part}")
    add([CUBE], "unbindAt 0 dim=1 part=2")
    add([CUBE], "unbindAt 0 dim=-1 part=0")
    for dims in ("0", "1,2", "-1", "0,1,2"):
        add([CUBE], f"flip 0 dims={dims}", "mul 1 0")
    add([CUBE], "roll 0 shifts=1 dims=1", "mul 1 0")
    add([CUBE], "roll 0 shifts=-4,3 dims=1,0", "mul 1 0")
    add([CUBE], "roll 0 shifts=5", "mul 1 0")
    add([SMALL], "repeat 0 times=2x3")
    add([SMALL], "repeat 0 times=2x1x2")
    add([SMALL], "repeat 0 times=0x2")
    add([SMALL], "tile 0 times=2")
    add([SMALL], "tile 0 times=2x1x2")
    add([SMALL], "repeatInterleave 0 repeats=2 dim=1")
    add([SMALL], "repeatInterleave 0 repeats=3")
    add([CUBE], "movedim 0 from=0 to=2")
    add([CUBE], "movedim 0 from=-1 to=0")
    add([CUBE], "mT 0")
    add([SMALL], "T 0")
    square = "f32 3x4 g: " + " ".join(map(str, range(1, 13)))
    for name in ("tril", "triu"):
        for diagonal in (-5, -1, 0, 1, 2, 5):
            add([square], f"{name} 0 diagonal={diagonal}")
        add(["f32 2x2x2 g: 1 2 inf 4 nan 6 7 8"], f"{name} 0 diagonal=0")
    for items in ("1", "-1", ":", "...;1", "1;...;0", "null;1", "...;null", "0:1", ":;1:3", ":;-2:", ":;0:3:2", ":;5:9", "1;2;0"):
        add([CUBE], f"at 0 items={items}")
    pair, row = "i32 2: 2 -1", "i32 2x2: 0 1 1 0"
    add([CUBE, pair], "at 0 1 items=:;t1")
    add([CUBE, row], "at 0 1 items=t1")
    add([CUBE, row], "at 0 1 items=...;t1")
    add([CUBE, row, pair], "at 0 1 2 items=t1;t2")
    add([CUBE, row, pair], "at 0 1 2 items=t1;:;t1")
    add([CUBE, row, pair], "at 0 1 2 items=:;t2;t1")
    add([CUBE, row, pair], "at 0 1 2 items=0;t2;t1")
    add([CUBE, pair], "at 0 1 items=1;null;t1;0:1")
    add([SMALL, "bool 2x3: 1 0 1 0 1 0"], "maskedFill 0 1 #-1.5")
    add([SMALL, "bool 3: 1 0 1"], "maskedFill 0 1 #0")
    add([SMALL, "bool 2x1: 1 0", "f32 . g: 7"], "maskedFill 0 1 2")
    add([SMALL, "i32 2x2: 2 0 1 2", "f32 2x2 g: 5 6 7 8"], "scatter 0 1 2 dim=1")
    add([SMALL, "i32 1x3: 1 0 1", "f32 1x3 g: 5 6 7"], "scatter 0 1 2 dim=0")
    add([SMALL, "i32 1x3: 1 0 1"], "scatter 0 1 #3 dim=0")
    add([SMALL, "i32 2: 1 0", "f32 2x3 g: 1 2 3 4 5 6"], "indexPut 0 1 2")
    add([SMALL, "i32 2: 1 0", "i32 2: -1 0", "f32 2 g: 8 9"], "indexPut 0 1 2 3")
    add([SMALL, "i32 2: 1 1", "f32 3 g: 8 9 10"], "indexPut 0 1 2 add=1")
    add([CUBE, "i32 2x1: 1 0", "i32 2: 2 0", "f32 2 g: 8 9"], "indexPut 0 1 2 3 add=1")
    add([SMALL, "i32 2x1: 2 0"], "takeAlongDim 0 1 dim=1")
    add([SMALL, "i32 1x3: 1 0 1"], "takeAlongDim 0 1 dim=0")

    matrices = ["f32 2x3 g: 1 -2 0.5 3 0.25 -1.5", "f32 3x2 g: 2 1 3 -1 4 0.5"]
    for eq in ("ij,jk->ik", "ij,jk", "ij,jk->ki", "ij,jk->j", "ij,jk->", "ij,kl->ijkl", "ij,ji->i", "ij,jk->ijk", "ij,lk->i"):
        add(matrices, f"einsum 0 1 eq={eq}")
    for eq in ("ij->ji", "ij->", "ij->i", "ba", "ij", "...->...", "i...->...i", "...j->..."):
        add([SMALL], f"einsum 0 eq={eq}")
    for eq in ("ii->i", "ii", "ii->"):
        add(["f32 3x3 g: 1 2 3 4 5 6 7 8 9"], f"einsum 0 eq={eq}")
    batched = ["f32 2x2x3 g: " + " ".join(str(i % 5 - 2.5) for i in range(12)), "f32 2x3x2 g: " + " ".join(str(i % 7 - 3.5) for i in range(12))]
    for eq in ("bij,bjk->bik", "bij,bjk->ik", "...ij,...jk->...ik", "bij,cjk->bcik", "bij,bjk->kb"):
        add(batched, f"einsum 0 1 eq={eq}")
    add([batched[0], "f32 3x2 g: 1 2 3 4 5 6"], "einsum 0 1 eq=...ij,jk->...ik")
    add([batched[0], "f32 1x3x2 g: 1 2 3 4 5 6"], "einsum 0 1 eq=bij,bjk->bik")
    add([*matrices, "f32 2 g: 3 -1"], "einsum 0 1 2 eq=ij,jk,k->i")
    add([*matrices, "f32 2 g: 3 -1"], "einsum 0 1 2 eq=ij,jk,i->k")
    vectors = ["f32 3 g: 1 -2 0.5", "f32 3 g: 4 0 3"]
    add(vectors, "dot 0 1")
    add([vectors[0], "f32 2 g: 4 0"], "outer 0 1")
    points = ["f32 2x3x2 g: 0 1 2 3 1 1.5 0 0.5 1 2 3 4", "f32 2x2x2 g: 0 1 1 2.25 5 6 1 2"]
    for p in ("2", "1", "3"):
        add(points, f"cdist 0 1 p={p}")
    add([points[0], "f32 2x2x2 g: 0.5 9 -7 1 5 0 20 2"], "cdist 0 1 p=inf")
    lowest = "f32 1x1x3x4 g: -inf -inf 1 2 -inf -inf -inf -inf 0 -inf -inf -inf"
    for stride in (1, 2):
        add([lowest], f"maxPool2d 0 kernel=3 stride={stride} padding=1 dilation=1")
    add([lowest], "maxPool2d 0 kernel=2 stride=1 padding=1 dilation=2")
    return programs
