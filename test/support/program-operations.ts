import {
  cdist,
  concat,
  einsum,
  type Index,
  nn,
  type Operand,
  slice,
  stack,
  type Tensor,
} from '@shardwise/core';

/** An operation of a recorded program: its operands, and its parameters by name. */
export interface Call {
  /** Returns operand `index` as a tensor. */
  tensor(index: number): Tensor;
  /** Returns operand `index`, which may be a number. */
  operand(index: number): Operand;
  readonly count: number;
  number(name: string): number;
  /** Returns a parameter that is a list of numbers, joined by x. `.` is the empty list. */
  list(name: string): number[];
  /** Returns undefined if the call has no such parameter. */
  text(name: string): string | undefined;
}

type Operation = (call: Call) => Tensor;

function dtypeOf(text: string | undefined): 'f32' | 'i32' | 'bool' {
  if (text === 'f32' || text === 'i32' || text === 'bool') return text;
  throw new TypeError(`dtype ${text}`);
}

function reductionOf(call: Call): 'mean' | 'sum' | 'none' {
  const reduction = call.text('reduction');
  if (reduction === 'mean' || reduction === 'sum' || reduction === 'none') return reduction;
  throw new TypeError(`reduction ${reduction}`);
}

function reduce(name: 'sum' | 'mean' | 'max' | 'min'): Operation {
  return (call) => call.tensor(0)[name](dimsOf(call), keepDim(call));
}

function dimsOf(call: Call): number[] | undefined {
  return call.text('dims')?.split(',').map(Number);
}

function keepDim(call: Call): { keepDim: boolean } {
  return { keepDim: call.text('keep') !== undefined };
}

function all(call: Call): Tensor[] {
  return Array.from({ length: call.count }, (_, i) => call.tensor(i));
}

function part(parts: readonly Tensor[], call: Call): Tensor {
  return need(parts[call.number('part')]);
}

function need(x: Tensor | undefined): Tensor {
  if (x === undefined) throw new RangeError('no such tensor');
  return x;
}

function order(call: Call): { descending: boolean } {
  return { descending: call.text('down') !== undefined };
}

function topK(call: Call): { values: Tensor; indices: Tensor } {
  const largest = call.text('down') !== undefined;
  return call.tensor(0).topK(call.number('k'), { dim: call.number('dim'), largest });
}

/** Parses an index. `t1` is operand 1, and `1:3` is a slice. */
function indexOf(text: string, call: Call): Index {
  if (text === ':' || text === '...') return text;
  if (text === 'null') return null;
  if (text.startsWith('t')) return call.tensor(Number(text.slice(1)));
  if (!text.includes(':')) return Number(text);
  const [start = null, stop = null, step = null] = text
    .split(':')
    .map((end) => (end === '' ? null : Number(end)));
  return slice(start, stop, step ?? 1);
}

function element(text: string): number {
  return Number(text.replace('inf', 'Infinity'));
}

/** The operations, under the names that tools/golden-programs.py uses. */
export const operations: Readonly<Record<string, Operation>> = {
  neg: (call) => call.tensor(0).neg(),
  abs: (call) => call.tensor(0).abs(),
  sign: (call) => call.tensor(0).sign(),
  exp: (call) => call.tensor(0).exp(),
  log: (call) => call.tensor(0).log(),
  sqrt: (call) => call.tensor(0).sqrt(),
  rsqrt: (call) => call.tensor(0).rsqrt(),
  sin: (call) => call.tensor(0).sin(),
  cos: (call) => call.tensor(0).cos(),
  tanh: (call) => call.tensor(0).tanh(),
  erf: (call) => call.tensor(0).erf(),
  floor: (call) => call.tensor(0).floor(),
  ceil: (call) => call.tensor(0).ceil(),
  square: (call) => call.tensor(0).square(),
  sigmoid: (call) => call.tensor(0).sigmoid(),
  relu: (call) => call.tensor(0).relu(),
  softplus: (call) => call.tensor(0).softplus(),
  silu: (call) => call.tensor(0).silu(),
  logit: (call) =>
    call.text('eps') === undefined
      ? call.tensor(0).logit()
      : call.tensor(0).logit(call.number('eps')),
  gelu: (call) => call.tensor(0).gelu(call.text('approximate') === 'tanh' ? 'tanh' : 'none'),
  log1p: (call) => call.tensor(0).log1p(),
  expm1: (call) => call.tensor(0).expm1(),
  log2: (call) => call.tensor(0).log2(),
  exp2: (call) => call.tensor(0).exp2(),
  reciprocal: (call) => call.tensor(0).reciprocal(),
  tan: (call) => call.tensor(0).tan(),
  asin: (call) => call.tensor(0).asin(),
  acos: (call) => call.tensor(0).acos(),
  atan: (call) => call.tensor(0).atan(),
  sinh: (call) => call.tensor(0).sinh(),
  cosh: (call) => call.tensor(0).cosh(),
  trunc: (call) => call.tensor(0).trunc(),
  round: (call) => call.tensor(0).round(call.number('decimals')),
  isNaN: (call) => call.tensor(0).isNaN(),
  isFinite: (call) => call.tensor(0).isFinite(),
  isInf: (call) => call.tensor(0).isInf(),
  leakyRelu: (call) => call.tensor(0).leakyRelu(call.number('slope')),
  elu: (call) => call.tensor(0).elu(call.number('alpha')),
  mish: (call) => call.tensor(0).mish(),
  hardtanh: (call) => call.tensor(0).hardtanh(call.number('low'), call.number('high')),
  clampLow: (call) => call.tensor(0).clamp(call.number('low')),
  clampHigh: (call) => call.tensor(0).clamp(null, call.number('high')),
  logicalNot: (call) => call.tensor(0).logicalNot(),
  clamp: (call) => call.tensor(0).clamp(call.number('low'), call.number('high')),
  to: (call) => call.tensor(0).to(dtypeOf(call.text('dtype'))),
  detach: (call) => call.tensor(0).detach(),

  add: (call) => call.tensor(0).add(call.operand(1)),
  sub: (call) => call.tensor(0).sub(call.operand(1)),
  mul: (call) => call.tensor(0).mul(call.operand(1)),
  div: (call) => call.tensor(0).div(call.operand(1)),
  divTrunc: (call) => call.tensor(0).div(call.operand(1), { roundingMode: 'trunc' }),
  divFloor: (call) => call.tensor(0).div(call.operand(1), { roundingMode: 'floor' }),
  pow: (call) => call.tensor(0).pow(call.operand(1)),
  maximum: (call) => call.tensor(0).maximum(call.operand(1)),
  minimum: (call) => call.tensor(0).minimum(call.operand(1)),
  remainder: (call) => call.tensor(0).remainder(call.operand(1)),
  fmod: (call) => call.tensor(0).fmod(call.operand(1)),
  atan2: (call) => call.tensor(0).atan2(call.operand(1)),
  lerp: (call) => call.tensor(0).lerp(call.tensor(1), call.operand(2)),
  addcmul: (call) =>
    call.tensor(0).addcmul(call.tensor(1), call.tensor(2), { value: call.number('value') }),
  addcdiv: (call) =>
    call.tensor(0).addcdiv(call.tensor(1), call.tensor(2), { value: call.number('value') }),
  eq: (call) => call.tensor(0).eq(call.operand(1)),
  ne: (call) => call.tensor(0).ne(call.operand(1)),
  lt: (call) => call.tensor(0).lt(call.operand(1)),
  le: (call) => call.tensor(0).le(call.operand(1)),
  gt: (call) => call.tensor(0).gt(call.operand(1)),
  ge: (call) => call.tensor(0).ge(call.operand(1)),
  logicalAnd: (call) => call.tensor(0).logicalAnd(call.tensor(1)),
  logicalOr: (call) => call.tensor(0).logicalOr(call.tensor(1)),
  where: (call) => call.tensor(0).where(call.operand(1), call.operand(2)),

  sum: reduce('sum'),
  mean: reduce('mean'),
  max: reduce('max'),
  min: reduce('min'),
  variance: (call) =>
    call
      .tensor(0)
      .variance(dimsOf(call), { ...keepDim(call), correction: call.number('correction') }),
  std: (call) =>
    call.tensor(0).std(dimsOf(call), { ...keepDim(call), correction: call.number('correction') }),
  prod: (call) => call.tensor(0).prod(dimsOf(call), keepDim(call)),
  norm: (call) => {
    const p = element(call.text('p') ?? '');
    return call.tensor(0).norm(dimsOf(call), { ...keepDim(call), p });
  },
  logSumExp: (call) => call.tensor(0).logSumExp(dimsOf(call), keepDim(call)),
  any: (call) => call.tensor(0).any(dimsOf(call), keepDim(call)),
  all: (call) => call.tensor(0).all(dimsOf(call), keepDim(call)),
  argMin: (call) => call.tensor(0).argMin(call.number('dim'), keepDim(call)),
  argMaxAll: (call) => call.tensor(0).argMax(),
  argMinAll: (call) => call.tensor(0).argMin(),
  maxValues: (call) => call.tensor(0).maxWithIndices(call.number('dim'), keepDim(call)).values,
  minValues: (call) => call.tensor(0).minWithIndices(call.number('dim'), keepDim(call)).values,
  maxIndices: (call) => call.tensor(0).maxWithIndices(call.number('dim'), keepDim(call)).indices,
  minIndices: (call) => call.tensor(0).minWithIndices(call.number('dim'), keepDim(call)).indices,
  medianValues: (call) => call.tensor(0).median(call.number('dim')).values,
  sortValues: (call) => call.tensor(0).sort(call.number('dim'), order(call)).values,
  argSort: (call) => call.tensor(0).argSort(call.number('dim'), order(call)),
  topKValues: (call) => topK(call).values,
  topKIndices: (call) => topK(call).indices,
  cumProd: (call) => call.tensor(0).cumProd(call.number('dim')),
  binCount: (call) => call.tensor(0).binCount(call.number('length')),
  histogram: (call) => {
    const range = [call.number('low'), call.number('high')] as const;
    return call.tensor(0).histogram({ bins: call.number('bins'), range }).counts;
  },
  argMax: (call) => call.tensor(0).argMax(call.number('dim'), keepDim(call)),
  cumsum: (call) => call.tensor(0).cumsum(call.number('dim')),
  softmax: (call) => call.tensor(0).softmax(call.number('dim')),
  logSoftmax: (call) => call.tensor(0).logSoftmax(call.number('dim')),
  layerNorm: (call) => call.tensor(0).layerNorm(call.tensor(1), call.tensor(2), 1e-5),
  rmsNorm: (call) => call.tensor(0).rmsNorm(call.tensor(1), 1e-5),

  reshape: (call) => call.tensor(0).reshape(call.list('shape')),
  flatten: (call) => call.tensor(0).flatten(),
  permute: (call) => call.tensor(0).permute(call.list('order')),
  transpose: (call) => call.tensor(0).transpose(call.number('a'), call.number('b')),
  expand: (call) => call.tensor(0).expand(call.list('shape')),
  unsqueeze: (call) => call.tensor(0).unsqueeze(call.number('dim')),
  squeeze: (call) => call.tensor(0).squeeze(call.number('dim')),
  slice: (call) =>
    call
      .tensor(0)
      .slice(call.number('dim'), call.number('start'), call.number('stop'), call.number('step')),
  select: (call) => call.tensor(0).select(call.number('dim'), call.number('index')),
  splitAt: (call) => part(call.tensor(0).split(call.number('size'), call.number('dim')), call),
  chunkAt: (call) => part(call.tensor(0).chunk(call.number('chunks'), call.number('dim')), call),
  unbindAt: (call) => part(call.tensor(0).unbind(call.number('dim')), call),
  flip: (call) => call.tensor(0).flip(dimsOf(call) ?? []),
  roll: (call) => {
    const shifts = (call.text('shifts') ?? '').split(',').map(Number);
    return call.tensor(0).roll(shifts, dimsOf(call));
  },
  repeat: (call) => call.tensor(0).repeat(call.list('times')),
  tile: (call) => call.tensor(0).tile(call.list('times')),
  repeatInterleave: (call) => {
    const dim = call.text('dim') === undefined ? undefined : call.number('dim');
    return call.tensor(0).repeatInterleave(call.number('repeats'), dim);
  },
  movedim: (call) => call.tensor(0).movedim(call.number('from'), call.number('to')),
  mT: (call) => call.tensor(0).mT,
  T: (call) => call.tensor(0).T,
  tril: (call) => call.tensor(0).tril(call.number('diagonal')),
  triu: (call) => call.tensor(0).triu(call.number('diagonal')),
  at: (call) => {
    const items = (call.text('items') ?? '').split(';').map((item) => indexOf(item, call));
    return call.tensor(0).at(...items);
  },
  maskedFill: (call) => call.tensor(0).maskedFill(call.tensor(1), call.operand(2)),
  scatter: (call) => call.tensor(0).scatter(call.number('dim'), call.tensor(1), call.operand(2)),
  indexPut: (call) => {
    const [x, ...indices] = all(call).slice(0, -1);
    const values = call.operand(call.count - 1);
    const accumulate = call.text('add') !== undefined;
    return need(x).indexPut(indices, values, { accumulate });
  },
  takeAlongDim: (call) => call.tensor(0).takeAlongDim(call.tensor(1), call.number('dim')),
  einsum: (call) => einsum(call.text('eq') ?? '', ...all(call)),
  outer: (call) => call.tensor(0).outer(call.tensor(1)),
  dot: (call) => call.tensor(0).dot(call.tensor(1)),
  cdist: (call) => cdist(call.tensor(0), call.tensor(1), { p: element(call.text('p') ?? '') }),
  pad: (call) => call.tensor(0).pad(call.list('before'), call.list('after'), call.number('value')),
  concat: (call) => concat(all(call), call.number('dim')),
  stack: (call) => stack(all(call), call.number('dim')),

  matmul: (call) => call.tensor(0).matmul(call.tensor(1)),
  conv2d: (call) =>
    nn.functional.conv2d(call.tensor(0), call.tensor(1), null, {
      stride: call.number('stride'),
      padding: call.number('padding'),
    }),
  maxPool2d: (call) =>
    nn.functional.maxPool2d(call.tensor(0), call.number('kernel'), {
      stride: call.number('stride'),
      padding: call.number('padding'),
      dilation: call.number('dilation'),
    }),
  avgPool2d: (call) =>
    nn.functional.avgPool2d(call.tensor(0), call.number('kernel'), {
      stride: call.number('stride'),
      padding: call.number('padding'),
    }),
  gather: (call) => call.tensor(0).gather(call.number('dim'), call.tensor(1)),
  scatterAdd: (call) =>
    call.tensor(0).scatterAdd(call.number('dim'), call.tensor(1), call.tensor(2)),
  indexSelect: (call) => call.tensor(0).indexSelect(call.number('dim'), call.tensor(1)),
  indexAdd: (call) => call.tensor(0).indexAdd(call.number('dim'), call.tensor(1), call.tensor(2)),
  embedding: (call) => {
    const padding = call.text('padding') === undefined ? undefined : call.number('padding');
    return nn.functional.embedding(call.tensor(0), call.tensor(1), padding);
  },
  oneHot: (call) => call.tensor(0).oneHot(call.number('classes')),

  mseLoss: (call) =>
    nn.functional.mseLoss(call.tensor(0), call.tensor(1), { reduction: reductionOf(call) }),
  l1Loss: (call) =>
    nn.functional.l1Loss(call.tensor(0), call.tensor(1), { reduction: reductionOf(call) }),
  bceLoss: (call) =>
    nn.functional.binaryCrossEntropyWithLogits(call.tensor(0), call.tensor(1), {
      reduction: reductionOf(call),
    }),
  crossEntropy: (call) =>
    nn.functional.crossEntropy(call.tensor(0), call.tensor(1), {
      reduction: reductionOf(call),
      ignoreIndex: call.number('ignore'),
      labelSmoothing: call.number('smoothing'),
    }),
  nllLoss: (call) =>
    nn.functional.nllLoss(call.tensor(0), call.tensor(1), {
      reduction: reductionOf(call),
      ignoreIndex: call.number('ignore'),
    }),
  attention: (call) =>
    nn.functional.scaledDotProductAttention(call.tensor(0), call.tensor(1), call.tensor(2), {
      causal: call.text('causal') !== undefined,
    }),
  maskedAttention: (call) =>
    nn.functional.scaledDotProductAttention(call.tensor(0), call.tensor(1), call.tensor(2), {
      mask: call.tensor(3),
    }),
};
