import { cpu } from '@shardwise/backend-cpu';
import { interpreter, opExamples } from '@shardwise/testing';
import { beforeEach, describe, expect, it, test, vi } from 'vitest';
import { Linear } from '../src/nn/layers/linear.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { Tanh } from '../src/nn/layers/activations.ts';
import { Adam } from '../src/optim/adam.ts';
import { manualSeed } from '../src/random/keys.ts';
import { PLAN_LIMIT } from '../src/realize/cache/plan-cache.ts';
import { structureKey } from '../src/realize/cache/plan-difference.ts';
import { setRank } from '../src/rank.ts';
import type { Backend } from '../src/spec/backend.ts';
import type { Op, OpParams } from '../src/spec/op.ts';
import { fromData, full, ones, tensor } from '../src/tensor/create.ts';
import { statistics } from '../src/timeline.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

const numbers = [0, -0, 1, -1, 0.1, 1e-45, Infinity, -Infinity, NaN];

/** Parameters of each kind of op that ranks take part in, and of transfers. */
const axis = { axis: 'dp', size: 2, rank: 0 };
const others: readonly OpParams[Op][] = [
  { ...axis, reduce: 'sum', to: 'replicate', bucket: -1, pass: 0 },
  { ...axis, dim: 0, to: 'replicate' },
  { ...axis, dim: 0, reduce: 'sum', pass: 0 },
  { ...axis, shape: [2, 3] },
  { ...axis, splitDim: 0, concatDim: 1 },
  { ...axis, root: 0 },
  { ...axis, destination: [1, 0] },
  { ...axis, from: 'invariant', to: 'replicate' },
  { store: 0, name: null },
  { store: 0, name: 'a' },
  { source: 0, name: 'a', bucket: 0 },
  { rows: 3 },
];

/** Values that differ from a parameter, of its kind and of others that it may be taken for. */
function variantsOf(value: unknown): unknown[] {
  if (typeof value === 'number') return numbers.filter((each) => !Object.is(each, value));
  if (typeof value === 'boolean') return [!value];
  if (typeof value === 'string')
    return [`${value}a`, 'none', null].filter((each) => each !== value);
  if (value === null) return ['null', 'a', 0, 0.5];
  if (typeof value === 'object' && !Array.isArray(value)) {
    return Object.entries(value).flatMap(([name, field]) =>
      variantsOf(field).map((each) => ({ ...value, [name]: each })),
    );
  }
  if (!Array.isArray(value)) throw new TypeError(`no variants of a ${typeof value}`);
  const longer = [[], [...value, 1], [...value, 0]];
  return value
    .flatMap((item, at) => variantsOf(item).map((each) => value.with(at, each)))
    .concat(longer);
}

describe('structures', () => {
  const all = [
    ...opExamples().map(([op, { params }]) => [op, params] as const),
    ...others.map((params) => ['others', params] as const),
  ];
  test.each(all)('of %s differ with each of its parameters: %j', (_, params) => {
    for (const [name, value] of Object.entries(params)) {
      const list = [params, ...variantsOf(value).map((each) => ({ ...params, [name]: each }))];
      expect(new Set(list.map((each) => structureKey(each))).size, name).toBe(list.length);
    }
    // Equal parameters have one structure, even if they are different objects.
    expect(structureKey({ ...params })).toBe(structureKey(params));
  });
});

const devices: Readonly<Record<string, () => Backend | Promise<Backend>>> = {
  interpreter: () => interpreter(),
  cpu: () => cpu(),
};

describe.each(Object.entries(devices))('numbers of a program on the %s', (_, device) => {
  test('are those that were written, in each run', async () => {
    setRank({ device: await device() });
    for (const value of [...numbers, ...numbers.toReversed()]) {
      const x = fromData(Float32Array.of(1, 1), [2], 'f32');
      const expected = Math.fround(value);
      expect([...(await x.mul(value).data())]).toEqual([expected, expected]);
      expect([...(await tensor([3]).div(value).data())]).toEqual([Math.fround(3 / expected)]);
      expect([...(await x.pad([1], [0], value).data())]).toEqual([expected, 1, 1]);
    }
  });

  test('that change become inputs: of every dtype, several at once', async () => {
    setRank({ device: await device() });
    const { plansMade } = statistics();
    for (let step = 0; step < 6; step++) {
      const y = tensor([1, 2])
        .mul(step / 2)
        .add(tensor([1, 2], 'i32').mul(step).to('f32'))
        .add(full([2], step % 2, 'bool').to('f32'))
        .add(full([2], step / 4, 'bf16').to('f32'));
      const expected = [1, 2].map((x) => (x * step) / 2 + x * step + (step % 2) + step / 4);
      expect([...(await y.data())]).toEqual(expected);
    }
    // There is a plan for the first step, one for the numbers that differ in the second step, and one for numbers that
    // happened to be equal in these two.
    expect(statistics().plansMade - plansMade).toBeLessThanOrEqual(3);
  });
});

describe('a training loop', () => {
  it('whose loss has another factor in each step makes two plans', async () => {
    setRank({ device: await cpu() });
    const model = new Sequential(new Linear(4, 8), new Tanh(), new Linear(8, 1));
    const optimizer = new Adam(model.parameters());
    const before = statistics();
    for (let step = 0; step < 30; step++) {
      optimizer.zeroGrad();
      const loss = model
        .forward(ones([2, 4]))
        .square()
        .mean();
      loss.mul(1 + step / 1e4).backward();
      await optimizer.step();
    }
    const { plansMade, plansDropped, programsCompiled, programsDisposed } = statistics();
    expect(plansMade - before.plansMade).toBe(2);
    expect(plansDropped - before.plansDropped).toBe(1);
    expect(programsDisposed - before.programsDisposed).toBe(1);
    expect(programsCompiled - before.programsCompiled).toBe(2);
  });

  it('whose shapes never repeat keeps a bounded number of plans where the device needs one for each', async () => {
    let alive = 0;
    const device = interpreter({ sized: false });
    const compile = device.compile.bind(device);
    device.compile = async (program) => {
      const executable = await compile(program);
      alive++;
      return {
        run: (...call) => executable.run(...call),
        dispose: () => {
          alive--;
          executable.dispose();
        },
      };
    };
    setRank({ device });
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const before = statistics();
    for (let length = 1; length <= PLAN_LIMIT + 50; length++) await ones([length]).mul(2).data();
    const { plansMade, plansDropped } = statistics();
    expect(plansMade - before.plansMade).toBe(PLAN_LIMIT + 50);
    expect(plansDropped - before.plansDropped).toBe(50);
    expect(alive).toBe(PLAN_LIMIT);
    // The latest plans have not been dropped.
    await ones([PLAN_LIMIT]).mul(2).data();
    expect(statistics().plansMade).toBe(plansMade);
    expect(warn).toHaveBeenCalledOnce();
    warn.mockRestore();
  });
});
