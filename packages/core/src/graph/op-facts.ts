import type { CollectiveOp, CompositeOp, Op, TransferOp } from '../spec/op.ts';

/** Facts about an op, besides the shape and dtype of its result, its decomposition and its gradient. */
export interface OpFacts {
  /**
   * Who carries the op out: the device, a process group or a store of pages. A `composite` runs on the device, whole or
   * decomposed. `graph`: nobody, because the op is only in the graph.
   */
  readonly by: 'device' | 'composite' | 'group' | 'store' | 'graph';
  /** Whether the op takes values of any dtype as they are, or only in the dtypes that a device computes with. */
  readonly dtypes: 'any' | 'computed';
  /**
   * The memory of the result on the device: its own, or that of the input. It is `none` for a value that is computed
   * where it is read, or that lies elsewhere.
   */
  readonly memory: 'own' | 'input' | 'none';
  /** Whether recomputing the op is expensive, as for products and for data from other ranks. */
  readonly isExpensive: boolean;
  /** Whether data travels between ranks. */
  readonly communicates: boolean;
  /** Whether the op returns its input unchanged if the axis has one rank. */
  readonly isIdentityForOneRank: boolean;
  /** Whether the result may overwrite the input. */
  readonly worksInPlace: boolean;
  /**
   * The groups of inputs in which the op is linear. The inputs of one group may be partial sums together, if the other
   * inputs are the same on all ranks. The result is then a partial sum, too. `all` means one group of all inputs.
   */
  readonly linearIn: 'all' | readonly (readonly number[])[];
  /**
   * The dtype in which the op takes floats inside autocast: `lower` is the dtype of the autocast, for products. `f32`
   * is for ops whose results would be too inexact in f16 and bf16. Other ops take their inputs as given.
   */
  readonly autocast: 'lower' | 'f32' | 'asGiven';
}

const local = {
  isExpensive: false,
  communicates: false,
  isIdentityForOneRank: false,
  worksInPlace: false,
  linearIn: [],
  autocast: 'asGiven',
} as const;
const compute = { ...local, by: 'device', dtypes: 'computed', memory: 'own' } as const;
const linear = { ...compute, linearIn: 'all' } as const;
/** An op that is linear in each of its two factors. */
const bilinear = { ...compute, linearIn: [[0], [1]] } as const;
const product = { ...bilinear, isExpensive: true, autocast: 'lower' } as const;
/** An op that moves elements without changing them. */
const movement = { ...linear, dtypes: 'any' } as const;
const composite = { ...compute, by: 'composite' } as const;
/** An op on rows. Its sums, exponentials and differences need more precision than its result. */
const rowwise = { ...composite, autocast: 'f32' } as const;
/** Autocast does not change the inputs. The caller says how operands are rounded, and masks keep their precision. */
const attention = { ...composite, isExpensive: true } as const;
const collective = {
  ...local,
  by: 'group',
  dtypes: 'any',
  memory: 'own',
  linearIn: 'all',
} as const;
const travelling = {
  ...collective,
  isExpensive: true,
  communicates: true,
  isIdentityForOneRank: true,
} as const;
const transfer = { ...local, by: 'store', dtypes: 'any', memory: 'own', linearIn: 'all' } as const;
const graph = { ...local, by: 'graph', dtypes: 'computed', memory: 'own' } as const;

export const opFacts: Readonly<Record<Op, OpFacts>> = {
  constant: { ...movement, memory: 'none', linearIn: [] },
  iota: { ...compute, memory: 'none' },
  random: compute,

  neg: linear,
  abs: compute,
  sign: compute,
  exp: compute,
  log: compute,
  sqrt: compute,
  sin: compute,
  cos: compute,
  atan: compute,
  tanh: compute,
  erf: compute,
  floor: compute,
  ceil: compute,
  logicalNot: compute,
  cast: movement,

  add: linear,
  sub: linear,
  mul: bilinear,
  div: { ...compute, linearIn: [[0]] },
  pow: compute,
  maximum: compute,
  minimum: compute,
  fmod: compute,
  equal: compute,
  less: compute,
  lessEqual: compute,
  logicalAnd: compute,
  logicalOr: compute,
  where: { ...movement, linearIn: [[1, 2]] },

  sum: { ...linear, autocast: 'f32' },
  max: compute,
  argMax: compute,
  argSort: compute,
  cumsum: { ...linear, autocast: 'f32' },

  reshape: { ...movement, memory: 'input' },
  permute: movement,
  expand: { ...movement, memory: 'input' },
  slice: movement,
  pad: movement,
  concat: movement,

  matmul: product,
  conv2d: product,
  conv2dInput: { ...bilinear, autocast: 'lower' },
  conv2dWeight: { ...bilinear, autocast: 'lower' },

  gather: { ...movement, linearIn: [[0]] },
  scatterAdd: { ...compute, linearIn: [[0, 2]] },
  scatter: { ...movement, linearIn: [[0, 2]] },
  indexSelect: { ...movement, linearIn: [[0]] },
  indexAdd: { ...compute, linearIn: [[0, 2]] },

  sigmoid: composite,
  relu: composite,
  silu: composite,
  softplus: composite,
  gelu: composite,
  geluGrad: { ...composite, linearIn: [[1]] },
  softmax: rowwise,
  softmaxGrad: { ...rowwise, linearIn: [[1]] },
  logSoftmax: rowwise,
  logSoftmaxGrad: { ...rowwise, linearIn: [[1]] },
  layerNorm: rowwise,
  layerNormInputGrad: { ...rowwise, linearIn: [[2]] },
  layerNormWeightGrad: { ...rowwise, linearIn: [[1]] },
  rmsNorm: rowwise,
  rmsNormInputGrad: { ...rowwise, linearIn: [[2]] },
  rmsNormWeightGrad: { ...rowwise, linearIn: [[1]] },
  groupedMatmul: { ...product, by: 'composite' },
  groupedMatmulWeight: { ...product, by: 'composite' },
  attention: { ...attention, linearIn: [[2]] },
  attentionLogSumExp: attention,
  attentionQueryGrad: { ...attention, linearIn: [[3, 5]] },
  attentionKeyGrad: { ...attention, linearIn: [[3, 5]] },
  attentionValueGrad: { ...attention, linearIn: [[3, 5]] },

  allReduce: { ...travelling, worksInPlace: true },
  allGather: travelling,
  reduceScatter: travelling,
  allToAll: travelling,
  allToAllRows: { ...travelling, isIdentityForOneRank: false, linearIn: [] },
  broadcast: { ...travelling, worksInPlace: true },
  reduce: { ...travelling, worksInPlace: true },
  // With one rank, the rank may send to itself, or to nobody, which gives zeros.
  sendRecv: { ...travelling, isIdentityForOneRank: false },
  localChunk: { ...collective, isIdentityForOneRank: true },
  reinterpret: { ...collective, memory: 'input' },

  pageOut: { ...transfer, memory: 'none' },
  pageIn: transfer,
  refresh: { ...transfer, worksInPlace: true, linearIn: [] },

  input: { ...graph, memory: 'none' },
  distributed: { ...graph, memory: 'none' },
  detach: { ...graph, memory: 'input', linearIn: 'all' },
  ownGradient: { ...graph, memory: 'input' },
  takeRows: { ...graph, dtypes: 'any', linearIn: [[0]] },
  fillRows: { ...graph, linearIn: 'all' },
  assign: graph,
};

/** Whether a process group carries out an op. Some of these ops send nothing. */
export function isCollectiveOp(op: Op): op is CollectiveOp {
  return opFacts[op].by === 'group';
}

export function isTransferOp(op: Op): op is TransferOp {
  return opFacts[op].by === 'store';
}

export function isCompositeOp(op: Op): op is CompositeOp {
  return opFacts[op].by === 'composite';
}
