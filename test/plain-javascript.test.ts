// Plain JavaScript has no type checker. A call with a wrong argument or one too many must throw an error.
import * as sw from '@shardwise/core';
import { distributeTensor, layoutOf } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import * as takes from './support/wrong-arguments.ts';
import { type Argument, unnoticed } from './support/wrong-arguments.ts';

const { optional } = takes;
beforeEach(() => sw.setRank({ device: interpreter() }));

const x = (): sw.Tensor =>
  sw.tensor([
    [4, 1],
    [2, 3],
  ]);
const i32 = (...values: number[]): sw.Tensor => sw.tensor(values, 'i32');
const other = takes.operand(sw.ones([2, 2]));
const float = takes.tensor(sw.ones([2, 2]));
const row = takes.tensor(sw.ones([2]));
const index = takes.tensor(
  sw.tensor(
    [
      [0, 1],
      [1, 0],
    ],
    'i32',
  ),
);
const reduce = [optional(takes.dims([0])), optional(takes.options({ keepDim: true }))];
const along = [takes.whole(1), optional(takes.options({ keepDim: true }))];

/** The arguments of each method. A method that is not listed takes none, or one of `kinds` that may be left out. */
const methods = new Map<string, readonly Argument[]>(
  Object.entries({
    ...Object.fromEntries(
      [
        'add',
        'sub',
        'mul',
        'pow',
        'remainder',
        'fmod',
        'atan2',
        'maximum',
        'minimum',
        'eq',
        'ne',
        'lt',
        'le',
        'gt',
        'ge',
      ].map((name) => [name, [other]]),
    ),
    ...Object.fromEntries(
      ['sum', 'mean', 'max', 'min', 'prod', 'logSumExp', 'any', 'all'].map((name) => [
        name,
        reduce,
      ]),
    ),
    div: [other, optional(takes.options({ roundingMode: 'floor' }))],
    lerp: [float, other],
    addcmul: [float, float, optional(takes.options({ value: 2 }))],
    addcdiv: [float, float, optional(takes.options({ value: 2 }))],
    logicalAnd: [float],
    logicalOr: [float],
    round: [optional(takes.whole(1))],
    leakyRelu: [optional(takes.number(0.1))],
    elu: [optional(takes.number(1))],
    hardtanh: [optional(takes.number(-1)), optional(takes.number(1))],
    gelu: [optional(takes.text('tanh'))],
    to: [takes.text('i32')],
    std: [optional(takes.dims([0])), optional(takes.options({ correction: 0 }))],
    variance: [optional(takes.dims([0])), optional(takes.options({ correction: 0 }))],
    norm: [optional(takes.dims([0])), optional(takes.options({ keepDim: true }))],
    argMax: [optional(takes.whole(0)), optional(takes.options({ keepDim: true }))],
    argMin: [optional(takes.whole(0)), optional(takes.options({ keepDim: true }))],
    maxWithIndices: along,
    minWithIndices: along,
    median: along,
    topK: [takes.whole(1), optional(takes.options({ dim: 0 }))],
    sort: [optional(takes.whole(0)), optional(takes.options({ descending: true }))],
    argSort: [optional(takes.whole(0)), optional(takes.options({ descending: true }))],
    cumProd: [takes.whole(0)],
    cumsum: [takes.whole(0)],
    histogram: [optional(takes.options({ bins: 2 }))],
    softmax: [optional(takes.whole(0))],
    logSoftmax: [optional(takes.whole(0))],
    layerNorm: [row, row, optional(takes.setting(1e-5))],
    rmsNorm: [row, optional(takes.setting(1e-5))],
    reshape: [takes.list([4])],
    flatten: [optional(takes.whole(0)), optional(takes.whole(1))],
    permute: [takes.list([1, 0])],
    transpose: [takes.whole(0), takes.whole(1)],
    swapaxes: [takes.whole(0), takes.whole(1)],
    expand: [takes.list([2, 2])],
    unsqueeze: [takes.whole(0)],
    squeeze: [takes.whole(0)],
    slice: [takes.whole(0), takes.whole(0), optional(takes.whole(1)), optional(takes.whole(1))],
    select: [takes.whole(0), takes.whole(0)],
    split: [takes.whole(1), optional(takes.whole(0))],
    chunk: [takes.whole(1), optional(takes.whole(0))],
    unbind: [optional(takes.whole(0))],
    movedim: [takes.dims(0), takes.dims(1)],
    flip: [takes.dims([0])],
    roll: [takes.dims([1]), optional(takes.dims([0]))],
    repeat: [takes.list([1, 2])],
    tile: [takes.list([1, 2])],
    repeatInterleave: [takes.whole(2), optional(takes.whole(0))],
    tril: [optional(takes.whole(0))],
    triu: [optional(takes.whole(0))],
    pad: [takes.list([0, 1]), takes.list([0, 1]), optional(takes.number(0))],
    matmul: [float, optional(takes.options({ transposeB: true }))],
    groupedMatmul: [takes.tensor(sw.ones([1, 2, 2])), takes.tensor(i32(2))],
    takeRows: [takes.tensor(sw.tensor(1, 'i32'))],
    maskedSelect: [takes.tensor(sw.ones([2, 2], 'bool'))],
    gather: [takes.whole(0), index],
    scatterAdd: [takes.whole(0), index, float],
    indexSelect: [takes.whole(0), takes.tensor(i32(0))],
    indexAdd: [takes.whole(0), takes.tensor(i32(0, 1)), float],
    maskedFill: [takes.tensor(sw.ones([2, 2], 'bool')), takes.operand(1)],
    scatter: [takes.whole(0), index, other],
    indexPut: [
      takes.tensors([i32(0)]),
      takes.operand(1),
      optional(takes.options({ accumulate: true })),
    ],
    takeAlongDim: [index, optional(takes.whole(0))],
    // A value that is not a function only fails in backward().
    registerHook: [optional({ given: () => undefined, wrong: [] })],
    registerPostAccumulateGradHook: [optional({ given: () => undefined, wrong: [] })],
    requiresGrad_: [optional(takes.flag(true))],
    assign: [float],
  }),
);

const whole = layoutOf([null, null]);
const distributed = (): sw.Tensor => distributeTensor(x(), whole);

/** Methods of tensors other than a matrix of floats. */
const special = new Map<string, readonly [of: () => sw.Tensor, ...takes: Argument[]]>(
  Object.entries({
    where: [() => x().gt(2), other, other],
    clamp: [
      x,
      { given: 1, wrong: [{}, '1', true] },
      optional({ given: 2, wrong: [{}, '1', true] }),
    ],
    oneHot: [() => i32(0, 1), takes.whole(2)],
    outer: [() => sw.ones([2]), row],
    dot: [() => sw.ones([2]), row],
    fillRows: [() => x().takeRows(sw.tensor(1, 'i32')), takes.whole(2)],
    binCount: [
      () => i32(0, 1),
      takes.whole(2),
      optional({ ...row, wrong: row.wrong.filter((value) => value !== null) }),
    ],
    backward: [() => x().requiresGrad_().mul(2), optional(float)],
    item: [() => sw.ones([])],
    toLocal: [distributed],
    fullTensor: [distributed],
    redistribute: [distributed, { given: whole, wrong: [{}, 'tp', ['tp', null]] }],
  }),
);
/** Methods for authors of strategies, which type checks cover, and methods that take any number of items. */
const others = [
  'at',
  'tensorOf',
  'markReplaced',
  'checkNotReplaced',
  'markVarying',
  'setGradientNode',
  'reduceGradient',
  'checkLosses',
  'checkUpdate',
  'pageGradient',
  'onAccumulated',
  'addGradientHook',
  'store',
  'toJSON',
  'pageOut',
  'wholeOf',
  'partOf',
];

function methodNames(): string[] {
  const names = new Set<string>();
  for (
    let at: object = sw.Tensor.prototype;
    at !== Object.prototype;
    at = Object.getPrototypeOf(at)
  ) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof value === 'function') names.add(name);
    }
  }
  names.delete('constructor');
  return [...names].filter((name) => !others.includes(name));
}

/** What a method may take that is not listed. */
const kinds: readonly Argument[] = [takes.setting(0.25), takes.whole(1), takes.flag(true)];

const isExpected = (error: unknown): boolean => sw.ShardwiseError.isInstance(error);

/** The argument that a method takes, if it takes one. */
async function argumentsOf(call: (given: unknown) => unknown): Promise<readonly Argument[]> {
  for (const kind of kinds) {
    try {
      await call(kind.given);
      return [optional(kind)];
    } catch (error) {
      if (!isExpected(error)) throw error;
    }
  }
  return [];
}

describe('a method of a tensor', () => {
  it.each(methodNames())('%s takes its arguments, and nothing else', async (name) => {
    const [of, ...given] = special.get(name) ?? [x, ...(methods.get(name) ?? [])];
    const call = (...inputs: unknown[]): unknown => {
      const tensor = name.startsWith('register') ? of().requiresGrad_() : of();
      return Reflect.apply(Reflect.get(tensor, name), tensor, inputs);
    };
    const isListed = special.has(name) || methods.has(name);
    const accepted = isListed ? given : await argumentsOf(call);
    await call(...accepted.map((argument) => argument.given));
    expect(await unnoticed({ call, takes: accepted }, isExpected)).toEqual([]);
  });
});

describe('a bound', () => {
  const bytes = (): sw.Tensor => sw.fromData(Uint8Array.of(0, 5, 250), [3], 'u8');

  it('above another one gives the upper one, as in PyTorch', async () => {
    expect(await x().clamp(2, -1).data()).toEqual(Float32Array.of(-1, -1, -1, -1));
    expect(await bytes().clamp(7, 2).data()).toEqual(Uint8Array.of(2, 2, 2));
  });

  it('that a u8 would wrap around to is refused, and one that no element comes to is not', async () => {
    for (const wrong of [
      () => bytes().clamp(2, -1),
      () => bytes().clamp(300),
      () => bytes().maximum(256),
      () => bytes().minimum(-1),
    ]) {
      expect(wrong).toThrow(/u8 holds whole numbers from 0 to 255/);
    }
    expect(await bytes().clamp(-1, 300).data()).toEqual(Uint8Array.of(0, 5, 250));
  });
});
