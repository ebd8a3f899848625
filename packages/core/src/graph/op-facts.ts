import type { CollectiveOp, CompositeOp, Op, TransferOp } from '../spec/op.ts';

/** What the engine knows of an op, beside the type of its result, what it is made of, and its gradient. */
export interface OpFacts {
  /** Who carries it out; a composite, the device or, in its parts, the device. No one: `graph`. */
  readonly by: 'device' | 'composite' | 'group' | 'store' | 'graph';
  /** Whether it takes values of any dtype as they are, or those that a device computes with. */
  readonly dtypes: 'any' | 'computed';
  /** What its result takes on the device: memory of its own, that of its input, or none, as it is made where it is read or lies elsewhere. */
  readonly memory: 'own' | 'input' | 'none';
  /** Whether it takes long to make again: products, and what other ranks sent. */
  readonly isDear: boolean;
  /** Whether data travels between ranks. */
  readonly travels: boolean;
  /** Whether it gives what it takes where the axis has one rank. */
  readonly isIdentityAlone: boolean;
  /** Whether its result may lie where its input lay. */
  readonly worksInPlace: boolean;
  /**
   * In which inputs it is linear: groups of inputs, of which those of one group may be partial sums together, where
   * the other inputs are the same on all ranks. The result is a partial sum, too. `all`: one group of all inputs.
   */
  readonly linearIn: 'all' | readonly (readonly number[])[];
  /**
   * In what it takes floats inside autocast: products in the dtype of the autocast (`lower`); `f32`, where f16 and bf16
   * would lose what the op is for; other ops as they are given them.
   */
  readonly autocast: 'lower' | 'f32' | 'asGiven';
}

const local = {
  isDear: false,
  travels: false,
  isIdentityAlone: false,
  worksInPlace: false,
  linearIn: [],
  autocast: 'asGiven',
} as const;
const compute = { ...local, by: 'device', dtypes: 'computed', memory: 'own' } as const;
const linear = { ...compute, linearIn: 'all' } as const;
/** Of each factor alone. */
const bilinear = { ...compute, linearIn: [[0], [1]] } as const;
const product = { ...bilinear, isDear: true, autocast: 'lower' } as const;
/** Carries elements as they are to another place. */
const movement = { ...linear, dtypes: 'any' } as const;
const composite = { ...compute, by: 'composite' } as const;
/** Of rows: its sums, exponentials and differences need more digits than its result. */
const rowwise = { ...composite, autocast: 'f32' } as const;
/** Who builds it says to what its operands are rounded: masks keep their digits. */
const attention = { ...composite, isDear: true } as const;
const collective = {
  ...local,
  by: 'group',
  dtypes: 'any',
  memory: 'own',
  linearIn: 'all',
} as const;
const travelling = {
  ...collective,
  isDear: true,
  travels: true,
  isIdentityAlone: true,
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
  allToAllRows: { ...travelling, isIdentityAlone: false, linearIn: [] },
  broadcast: { ...travelling, worksInPlace: true },
  reduce: { ...travelling, worksInPlace: true },
  // A rank may send to itself, and one that nobody sends to has zeros.
  sendRecv: { ...travelling, isIdentityAlone: false },
  localChunk: { ...collective, isIdentityAlone: true },
  reinterpret: { ...collective, memory: 'input' },

  pageOut: { ...transfer, memory: 'none' },
  pageIn: transfer,
  refresh: { ...transfer, worksInPlace: true, linearIn: [] },

  input: { ...graph, memory: 'none' },
  detach: { ...graph, memory: 'input', linearIn: 'all' },
  ownGradient: { ...graph, memory: 'input' },
  takeRows: { ...graph, dtypes: 'any', linearIn: [[0]] },
  fillRows: { ...graph, linearIn: 'all' },
  assign: graph,
};

/** Ops that a process group carries out, some without sending anything. */
export function isCollectiveOp(op: Op): op is CollectiveOp {
  return opFacts[op].by === 'group';
}

export function isTransferOp(op: Op): op is TransferOp {
  return opFacts[op].by === 'store';
}

export function isCompositeOp(op: Op): op is CompositeOp {
  return opFacts[op].by === 'composite';
}
