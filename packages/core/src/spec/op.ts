import type { DType, HalfDType, Shape } from './dtype.ts';
import type { GgufBlockFormat } from './gguf-blocks.ts';

/** No parameters. */
export type None = Readonly<Record<never, never>>;

/** The dtype of the sums of a product. */
export interface SumParams {
  /** 'f32': sums are f32, also of operands of f16 and bf16. Default: the dtype of the operands. */
  readonly sums?: 'f32';
}

/** The window of a 2-D convolution. All pairs are `[height, width]`. */
export interface Conv2dParams {
  readonly stride: readonly [number, number];
  readonly padding: readonly [number, number];
  readonly dilation: readonly [number, number];
  readonly groups: number;
}

/** How attention is computed. The scores are q kᵀ scale, and the weights are their softmax over the keys. */
export interface AttentionParams {
  /** Whether query t sees only the keys 0 to t, of those that the mask and the ranges let it see. */
  readonly causal: boolean;
  /** Whether the last input says which range of keys each query sees. */
  readonly hasKeyRanges: boolean;
  readonly scale: number;
  /** The dtype to which the weights, and the gradients of the scores, are rounded before they are multiplied. */
  readonly rounding: 'none' | HalfDType;
  /**
   * Of gradients: whether the keys are a part of those to which logSumExp and delta belong. The weights are then
   * exp(score - logSumExp), and no backend computes these numbers itself. Default: false.
   */
  readonly keysArePart?: boolean;
}

/** How attention through a table of blocks is computed. */
export type PagedAttentionParams = Pick<AttentionParams, 'scale' | 'rounding'>;

/**
 * How a value lies on one mesh axis (codified by spmd_types). It determines the type of the gradient. A value
 * without a declaration has no type, and is trusted to have the type that an op needs.
 */
export type AxisType =
  /** The value is the same on all ranks, and each rank uses its copy in its own way. Its gradient is partial. */
  | 'replicate'
  /** The value is the same on all ranks, and all use it in the same way. Its gradient is invariant. */
  | 'invariant'
  /** Each rank has its own value. Its gradient is varying. */
  | 'varying'
  /** The value is the sum over ranks. Its gradient is replicate. */
  | 'partial';

/** The mesh axis of a collective, its number of ranks, and the number of this rank. */
export interface AxisParams {
  readonly axis: string;
  readonly size: number;
  readonly rank: number;
}

/**
 * Primitive ops, which every backend must run. All gradients and composites consist of them. Letters: N any
 * shape; M, K, K' matrix dims; B batch dims. Binary ops take equal shapes: the graph inserts `expand` if shapes
 * broadcast.
 */
export interface PrimitiveParams {
  // Leaves: values without inputs.
  /** Every element is `value`. Bools are 0 and 1. */
  constant: { readonly value: number; readonly shape: Shape; readonly dtype: DType };
  /** i32; the element's index along `dim`. */
  iota: { readonly dim: number; readonly shape: Shape };
  /**
   * i32; 32 random bits per element, the same on every backend. They are a function of the key and of the element's
   * flat index i, row by row. All arithmetic is in uint32 and wraps around:
   *
   *     x = i * 0x9E3779B9 + key[0]
   *     x = (x ^ x >>> 16) * 0x85EBCA6B;  x = (x ^ x >>> 13) * 0xC2B2AE35;  x = x ^ x >>> 16
   *     x = x + key[1]
   *     x = (x ^ x >>> 16) * 0x7FEB352D;  x = (x ^ x >>> 15) * 0x846CA68B;  x = x ^ x >>> 16
   *
   * These are the finaliser of MurmurHash3 (Appleby 2011) and lowbias32 (Wellons 2018). Shape: key i32 [2] -> shape.
   */
  random: { readonly shape: Shape };

  // Elementwise, one input. Shape: N -> N.
  neg: None;
  abs: None;
  /** -1, 0 or 1; NaN gives 0, as in PyTorch. */
  sign: None;
  exp: None;
  log: None;
  sqrt: None;
  sin: None;
  cos: None;
  atan: None;
  tanh: None;
  erf: None;
  floor: None;
  ceil: None;
  /** bool -> bool. */
  logicalNot: None;
  /**
   * Float to int truncates towards zero. The result is unspecified for values that are far from every int. Int to a
   * smaller int wraps around. Conversion to a float rounds to nearest, ties to even. Conversion to bool is `!= 0`.
   */
  cast: { readonly dtype: DType };

  // Elementwise, two inputs of one dtype. Shape: N, N -> N. i32 wraps around.
  add: None;
  sub: None;
  mul: None;
  /** i32 truncates towards zero. Division by 0 is unspecified for i32. */
  div: None;
  /** 1 to any power is 1, even to NaN. i32 wraps around. Negative powers of i32 are 0, except those of 1 and -1. */
  pow: None;
  /** NaN propagates, also in minimum and max. */
  maximum: None;
  minimum: None;
  /**
   * Only for floats: a - b trunc(a / b), computed without rounding. The result has the sign of a. It is NaN if b is 0
   * or a is infinite.
   */
  fmod: None;
  /** The result of a comparison is bool. A comparison with NaN is false. */
  equal: None;
  less: None;
  lessEqual: None;
  /** bool, bool -> bool. */
  logicalAnd: None;
  logicalOr: None;
  /** Shape: condition bool N, a N, b N -> N. */
  where: None;

  // Reductions remove the reduced dims. `dims` ascend. Shape: N -> N without dims.
  /** f32 keeps its precision in long sums. i32 wraps around. */
  sum: { readonly dims: readonly number[] };
  max: { readonly dims: readonly number[] };
  /** i32; the first of equal maxima, or the first NaN. */
  argMax: { readonly dim: number };
  /**
   * i32; element i is the index along `dim` of the i-th element in sorted order. Equal elements keep their order,
   * also in descending order. NaN is larger than all other values. Shape: N -> N.
   */
  argSort: { readonly dim: number; readonly descending: boolean };
  /**
   * The inclusive running sum, which starts from the end if `reverse` is true. Floats are added in f64. i32 wraps
   * around. Shape: N -> N.
   */
  cumsum: { readonly dim: number; readonly reverse: boolean };

  // Movement.
  reshape: { readonly shape: Shape };
  /** Output dim i is input dim `order[i]`. */
  permute: { readonly order: readonly number[] };
  /** Repeats dims of size 1. The number of dims stays the same. */
  expand: { readonly shape: Shape };
  /** Takes, of each dim, the elements start, start + step, … below stop, where step >= 1. */
  slice: {
    readonly starts: readonly number[];
    readonly stops: readonly number[];
    readonly steps: readonly number[];
  };
  pad: {
    readonly before: readonly number[];
    readonly after: readonly number[];
    readonly value: number;
  };
  concat: { readonly dim: number };

  // Contractions. Operands of f16 and bf16 are multiplied without rounding, and summed in f32; the sum is rounded once,
  // to the operands' dtype. A backend that does not compute with these dtypes is given the operands cast to f32, the
  // product in f32, and the cast of its result. This gives the same bits, and the backend may recognize the pattern and
  // run it as one product of 16 bits.
  /**
   * Batch dims broadcast. A transpose first swaps the last two dims of its input.
   * Shape: a [B, M, K], b [B', K, K'] -> [B'', M, K'].
   */
  matmul: SumParams & { readonly transposeA: boolean; readonly transposeB: boolean };
  /** Shape: x [N, C, H, W], w [O, C/groups, R, S] -> [N, O, H', W']. */
  conv2d: Conv2dParams & SumParams;
  /** The gradient of conv2d by its input. Shape: dy [N, O, H', W'], w [O, C/groups, R, S] -> inputShape. */
  conv2dInput: Conv2dParams & { readonly inputShape: Shape };
  /** The gradient of conv2d by its weight. Shape: x [N, C, H, W], dy [N, O, H', W'] -> weightShape. */
  conv2dWeight: Conv2dParams & { readonly weightShape: Shape };

  // Indexing. Indices are i32. A run rejects with IndexError if an index is out of range. Negative indices are out of
  // range.
  /** out[i][j] = x[index[i][j]][j] for dim 0. Shape: x N, index N' -> N', N' <= N off dim. */
  gather: { readonly dim: number };
  /** out = x; out[index[i][j]][j] += source[i][j] for dim 0. Shape: x N, index N', source N' -> N. */
  scatterAdd: { readonly dim: number };
  /**
   * out = x; out[index[i][j]][j] = source[i][j] for dim 0. If indices are equal, the last one counts.
   * Shape: x N, index N', source N' -> N.
   */
  scatter: { readonly dim: number };
  /** Takes the rows of x that `index` names. Shape: x [.., D, ..], index [I] -> [.., I, ..]. */
  indexSelect: { readonly dim: number };
  /**
   * out = x; row index[i] of out += row i of source.
   * Shape: x [.., D, ..], index [I], source [.., I, ..] -> [.., D, ..].
   */
  indexAdd: { readonly dim: number };
}

/**
 * Composite ops. Each has a decomposition into primitives (graph/ops/ops.ts). A backend that lists one in
 * `limits.native` gets it whole. Other backends get the decomposition.
 */
export interface CompositeParams {
  /** 1 / (1 + exp(-x)). */
  sigmoid: None;
  relu: None;
  /** x / (1 + exp(-x)). */
  silu: None;
  /** log(1 + exp(x)), exact at both ends. */
  softplus: None;
  /** log(x / (1 - x)). With eps, x is limited to [eps, 1 - eps] first. */
  logit: { readonly eps: number | null };
  /** Computed exactly (erf) or by the tanh approximation. */
  gelu: { readonly approximate: 'none' | 'tanh' };
  /** Shape: x N, dy N -> N. */
  geluGrad: { readonly approximate: 'none' | 'tanh' };
  /** Runs over the last dim. Shape: [.., D] -> [.., D]. */
  softmax: None;
  /** The gradient of softmax, from its result y. Shape: y [.., D], dy [.., D] -> [.., D]. */
  softmaxGrad: None;
  logSoftmax: None;
  /** The gradient of logSoftmax, from its result y. Shape: y [.., D], dy [.., D] -> [.., D]. */
  logSoftmaxGrad: None;
  /** Shape: x [.., D], weight [D], bias [D] -> [.., D]. */
  layerNorm: { readonly eps: number };
  /** Shape: x [.., D], weight [D], dy [.., D] -> [.., D]. */
  layerNormInputGrad: { readonly eps: number };
  /** Shape: x [.., D], dy [.., D] -> [D]. */
  layerNormWeightGrad: { readonly eps: number };
  /** Shape: x [.., D], weight [D] -> [.., D]. */
  rmsNorm: { readonly eps: number };
  /** Shape: x [.., D], weight [D], dy [.., D] -> [.., D]. */
  rmsNormInputGrad: { readonly eps: number };
  /** Shape: x [.., D], dy [.., D] -> [D]. */
  rmsNormWeightGrad: { readonly eps: number };
  /**
   * Each row times the matrix of its group. The first counts[0] rows belong to group 0, the next ones to group
   * 1, and so on. Rows that no group counts give 0. With `transposeB`, the last two dims of w are swapped
   * first.
   * Shape: x [N, K], w [G, K, M], counts i32 [G] -> [N, M].
   */
  groupedMatmul: { readonly transposeB: boolean };
  /**
   * For each group, the product of its rows of a, transposed, and of b. Shape: a [N, K], b [N, M], counts i32
   * [G] -> [G, K, M].
   */
  groupedMatmulWeight: None;
  /**
   * Rows times the transpose of a weight that is kept in blocks of bytes. Each row of the weight is whole blocks. The weight
   * is what decoding gives in f32, and the bits of the result are those of the product with it.
   * Shape: x [N, K], weight u8 [O, K / elements * bytes] -> [N, O].
   */
  blockedLinear: { readonly format: GgufBlockFormat };
  /**
   * The weights times v. H / G consecutive query heads read one head of keys and values. B' is B, or 1 if all items
   * share keys and values. The mask is optional and is added to the scores. Each of its sizes, except S, may be 1.
   * With ranges (a, b), a query sees the keys from a up to, but not including, b: those that exist, and none if b <= a.
   * A backend need not compute anything with the others. The result is zeros for a query that sees no key.
   * Shape: q [B, H, T, D], k [B', G, S, D], v [B', G, S, E], mask f32 [B|1, H|1, T|1, S], ranges i32 [B|1, T, 2]
   * -> [B, H, T, E].
   */
  attention: AttentionParams;
  /**
   * For each query, the logarithm of the sum of the exponentials of its scores. It is infinite for a query that
   * sees no key, so that exp(score - logSumExp) is the weight in all cases.
   * Shape: q [B, H, T, D], k [B', G, S, D], mask, ranges -> [B, H, T], at least f32.
   */
  attentionLogSumExp: AttentionParams;
  /**
   * The gradient of attention by q. logSumExp belongs to the same queries and keys, and delta [B, H, T] is the
   * sum over E of y dy. A backend may compute both itself. It may compute ops with the same inputs together.
   * Shape: q, k, v as above, dy [B, H, T, E], logSumExp [B, H, T], delta [B, H, T], mask, ranges -> that of q.
   */
  attentionQueryGrad: AttentionParams;
  /** The gradient of attention by k, from the same inputs. Shape: that of k. */
  attentionKeyGrad: AttentionParams;
  /** The gradient of attention by v, from the same inputs. Shape: that of v. */
  attentionValueGrad: AttentionParams;
  /**
   * Attention whose keys and values lie in blocks (PagedAttention, Kwon et al. 2023). Row b of the table has the numbers
   * of the blocks of item b, in the order of its keys. Ranges say which of these keys each query sees, as for attention.
   * q, k and v are f32 or f64; k and v may be casts, below which backends read the blocks. Letters: N blocks of P keys, M blocks of an item.
   * Shape: q [B, H, T, D], k [N, P, G, D], v [N, P, G, E], table i32 [B, M], ranges i32 [B, T, 2] -> [B, H, T, E].
   */
  pagedAttention: PagedAttentionParams;
}

/** Collectives of the graph. A process group runs them between the segments that a backend runs. */
export interface CollectiveParams {
  /**
   * partial -> `to`. All-reduces with the same `bucket` are sent as one message. `pass` is the option of CallOptions,
   * and 0 means that it is not given.
   * Shape: N -> N.
   */
  allReduce: AxisParams & {
    readonly reduce: 'sum' | 'avg';
    readonly to: 'replicate' | 'invariant';
    readonly bucket: number;
    readonly pass: number;
  };
  /** varying -> `to`. Concatenates the shards along `dim` in rank order. Shape: [.., D, ..] -> [.., size*D, ..]. */
  allGather: AxisParams & { readonly dim: number; readonly to: 'replicate' | 'invariant' };
  /** partial -> varying. `pass` means what it means for allReduce. Shape: [.., size*D, ..] -> [.., D, ..]. */
  reduceScatter: AxisParams & {
    readonly dim: number;
    readonly reduce: 'sum' | 'avg';
    readonly pass: number;
  };
  /**
   * varying -> varying: cuts `splitDim` into a part for each rank, and joins the received parts along
   * `concatDim`.
   */
  allToAll: AxisParams & { readonly splitDim: number; readonly concatDim: number };
  /**
   * varying -> varying: sends rows to the ranks, in their order, and receives rows from them. The counts say
   * how many. The rows of x after those to send are not sent, and the rows of the result after the received
   * ones are 0.
   * Shape: x [M, ..], counts sent i32 [size], counts received i32 [size] -> shape [M', ..].
   */
  allToAllRows: AxisParams & { readonly shape: Shape };
  /** varying -> replicate: every rank gets root's value. Shape: N -> N. */
  broadcast: AxisParams & { readonly root: number };
  /** partial -> varying: the sum on root, zeros elsewhere. Shape: N -> N. */
  reduce: AxisParams & { readonly root: number };
  /**
   * varying -> varying: sends the value of rank r to rank destination[r] (-1: to no rank). A rank that gets
   * nothing has zeros. Shape: N -> N.
   */
  sendRecv: AxisParams & { readonly destination: readonly number[] };
  /** invariant -> varying: this rank's part along `dim`. Moves no data. Shape: [.., size*D, ..] -> [.., D, ..]. */
  localChunk: AxisParams & { readonly dim: number };
  /** A change of type that moves no data: invariant -> replicate, replicate -> varying, varying -> partial. */
  reinterpret: AxisParams & { readonly from: AxisType; readonly to: AxisType };
}

/** Moves between the device and a store of pages. They run between the segments, beside the collectives. */
export interface TransferParams {
  /**
   * The same value, moved out of the device into a page. `store` is the session's number of the store. `name` is the
   * name of the page. It is null if only this run reads the page. Shape: N -> N.
   */
  pageOut: { readonly store: number; readonly name: string | null };
  /** The same value, back on the device. Only this op takes the result of pageOut. Shape: N -> N. */
  pageIn: None;
  /**
   * The contents that a source has for x at this time. `source` is the session's number of the source, and `name`
   * tells the source which contents to read. A run waits for consecutive transfers of one bucket together.
   * Shape: N -> N.
   */
  refresh: { readonly source: number; readonly name: string; readonly bucket: number };
}

/** Ops that exist only in the graph. They never reach a backend as instructions. */
export interface GraphParams {
  /** A value that exists already: host data or a device buffer. */
  input: None;
  /** A tensor of which each rank has a part, or a term of a sum (`Node.distributed`). It stands for the whole. */
  distributed: None;
  /** The same value, without a gradient. Shape: N -> N. */
  detach: None;
  /**
   * The first input's value. Its gradient goes to the other inputs, by a rule of the node (`Node.ownGradient`).
   * Shape: N, any ... -> N.
   */
  ownGradient: None;
  /**
   * The first `count` rows of x. The run computes the count, so the size of dim 0 is NaN before the run.
   * Shape: x [N, ..], count i32 [] -> [count, ..].
   */
  takeRows: None;
  /** The rows of x, followed by zeros, `rows` rows in all. Shape: x [count, ..] -> [rows, ..]. */
  fillRows: { readonly rows: number };
  /** Overwrites target's buffer with value at the end of the run. Shape: target N, value N -> N. */
  assign: None;
}

/** Ops that every backend has. */
export type PrimitiveOp = keyof PrimitiveParams;
/** Ops that are decomposed if a backend has no kernel for them. */
export type CompositeOp = keyof CompositeParams;
/** Ops in which all ranks of an axis take part. */
export type CollectiveOp = keyof CollectiveParams;
/** Moves between the device and pages. */
export type TransferOp = keyof TransferParams;
/** Ops of the graph that no backend sees. */
export type GraphOp = keyof GraphParams;

/** The ops that a program for a backend may contain. */
export type ComputeParams = PrimitiveParams & CompositeParams;
/** Ops that backends compute. */
export type ComputeOp = keyof ComputeParams;

/** The parameters of each op. */
export type OpParams = ComputeParams & CollectiveParams & TransferParams & GraphParams;
/** The name of an op. */
export type Op = keyof OpParams;
