import { createHash } from 'node:crypto';
import { fromData, manualSeed, nn, optim, statistics, type Strategy } from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  parallelize,
  rowwiseParallel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { describeDifference } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

const wholeStrategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

/** Optimizers whose updates depend on whole parameters. */
const wholeOptimizers = {
  Lamb: (model: nn.Module) => new optim.Lamb(model.parameters(), { lr: 0.02 }),
  Adafactor: (model: nn.Module) => new optim.Adafactor(model.parameters(), { lr: 0.05 }),
  Muon: (model: nn.Module) =>
    new optim.Muon(
      model.parameters().filter(({ shape }) => shape.length === 2),
      { lr: 0.02 },
    ),
} satisfies Record<string, (model: nn.Module) => optim.Optimizer>;
type WholeOptimizer = keyof typeof wholeOptimizers;
const wholeNames = ['Lamb', 'Adafactor', 'Muon'] as const satisfies WholeOptimizer[];

const wholeKey = (optimizer: string, strategy: string): string => `${optimizer} under ${strategy}`;

const wholeSteps = 5;
const freezeStep = 20;
const oneBitSteps = 120;
const items = 24;

interface Training {
  losses: number[];
  hash: string;
  /** The bytes of the collectives of each step, as counted in the process group's messages. */
  bytes: number[];
}
interface Outcome {
  whole: Record<string, Training>;
  oneBit: Training;
}

function build(): nn.Sequential {
  manualSeed(3);
  return new nn.Sequential(new nn.Linear(16, 64), new nn.Tanh(), new nn.Linear(64, 16));
}

/** Returns the loss on this rank's share of a batch. 1 to 4 ranks share the batch evenly. */
function lossOn(
  forward: (x: ReturnType<typeof fromData>) => ReturnType<typeof fromData>,
  { rank, size }: { readonly rank: number; readonly size: number },
  step: number,
): ReturnType<typeof fromData> {
  const share = items / size;
  const x = Float32Array.from({ length: share * 16 }, (_, i) =>
    Math.sin((i + 1 + rank * share * 16) * (1 + (step % 4) / 7)),
  );
  const y = x.map((value, i) => (value * ((i + rank * share * 16) % 3)) / 2);
  const [inputs, targets] = [x, y].map((data) => fromData(data, [share, 16], 'f32'));
  if (inputs === undefined || targets === undefined) throw new RangeError('a batch');
  return nn.functional.mseLoss(forward(inputs), targets);
}

async function hashOf(model: nn.Module): Promise<string> {
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(await model.stateDict())) hash.update(bytes);
  return hash.digest('hex');
}

const styles = { '0': colwiseParallel(), '2': rowwiseParallel() };

async function observe(context: RankInThread, tp: number): Promise<Outcome> {
  if (tp === 1) {
    const whole = await trainWhole(wholeStrategies, context);
    return { whole, oneBit: await trainOneBit(context) };
  }
  const dp = context.size / tp;
  const composed = Object.entries(wholeStrategies).map(
    ([name, strategy]) =>
      [name, () => compose(tensorParallel(styles), strategy())] satisfies [string, () => Strategy],
  );
  const place = { rank: context.mesh.coordinate('dp'), size: dp };
  const whole = await trainWhole(Object.fromEntries(composed), place);
  return { whole, oneBit: { losses: [], hash: '', bytes: [] } };
}

async function trainWhole(
  strategies: Readonly<Record<string, () => Strategy>>,
  place: { readonly rank: number; readonly size: number },
): Promise<Record<string, Training>> {
  const whole: Record<string, Training> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    for (const kind of wholeNames) {
      const model = build();
      const parallel = await parallelize(model, strategy());
      const optimizer = wholeOptimizers[kind](model);
      const losses: number[] = [];
      for (let step = 0; step < wholeSteps; step++) {
        model.zeroGrad();
        const loss = lossOn((x) => parallel.forward(x), place, step);
        loss.backward();
        await optimizer.step();
        losses.push(await loss.item());
      }
      whole[wholeKey(kind, name)] = { losses, hash: await hashOf(model), bytes: [] };
    }
  }
  return whole;
}

async function trainOneBit(context: RankInThread): Promise<Training> {
  const model = build();
  const parallel = await parallelize(model, ddp());
  const optimizer = new optim.OneBitAdam(model.parameters(), { lr: 3e-3, freezeStep });
  const losses: number[] = [];
  const bytes: number[] = [];
  for (let step = 0; step < oneBitSteps; step++) {
    optimizer.zeroGrad();
    const loss = parallel.noSync(() => {
      const own = lossOn((x) => parallel.forward(x), context, step);
      own.backward();
      return own;
    });
    const before = statistics().collectiveBytes;
    await optimizer.step();
    losses.push(await loss.item());
    bytes.push(statistics().collectiveBytes - before);
  }
  return { losses, hash: await hashOf(model), bytes };
}

/** Does the same training on one rank with whole batches. */
async function alone(of: WholeOptimizer | 'adam'): Promise<number[]> {
  const model = build();
  const optimizer =
    of === 'adam'
      ? new optim.AdamW(model.parameters(), { lr: 3e-3, weightDecay: 0 })
      : wholeOptimizers[of](model);
  const losses: number[] = [];
  for (let step = 0; step < (of === 'adam' ? oneBitSteps : wholeSteps); step++) {
    model.zeroGrad();
    const loss = lossOn((x) => model.forward(x), { rank: 0, size: 1 }, step);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

const expected = { whole: new Map<string, number[]>(), adam: new Array<number>() };

beforeAll(async () => {
  await onRanks(1, async () => {
    for (const name of wholeNames) expected.whole.set(name, await alone(name));
    expected.adam = await alone('adam');
  });
});

describe.each([
  { size: 3, tp: 1 },
  { size: 4, tp: 2 },
])('on $size ranks, of which $tp compute layers together', ({ size, tp }) => {
  let ranks: readonly Outcome[] = [];

  beforeAll(async () => {
    const axes = [
      { name: 'dp', size: size / tp },
      { name: 'tp', size: tp },
    ];
    ranks = await onRanks(size, (rank) => observe(rank, tp), { axes: axes.slice(0, tp) });
  });

  const meanLosses = (of: (rank: Outcome) => readonly number[]): number[] => {
    const lists = ranks.map(of);
    return (lists[0] ?? []).map(
      (_, step) => lists.reduce((sum, losses) => sum + (losses[step] ?? NaN), 0) / size,
    );
  };

  describe.each(wholeNames)('%s', (optimizer) => {
    it.each(Object.keys(wholeStrategies))('updates whole parameters under %s', (strategy) => {
      const key = wholeKey(optimizer, strategy);
      const found = meanLosses(({ whole }) => whole[key]?.losses ?? []);
      const wanted = expected.whole.get(optimizer) ?? [];
      expect(describeDifference(found, wanted, { rtol: 1e-4 })).toBeUndefined();
      expect(new Set(ranks.map(({ whole }) => whole[key]?.hash)).size).toBe(1);
    });
  });

  if (tp > 1) return;

  it('OneBitAdam is Adam before its freeze step', () => {
    const found = meanLosses(({ oneBit }) => oneBit.losses).slice(0, freezeStep);
    const wanted = expected.adam.slice(0, freezeStep);
    expect(describeDifference(found, wanted, { rtol: 1e-4 })).toBeUndefined();
  });

  it('OneBitAdam goes on learning after it, with the same bits on every rank', () => {
    const found = meanLosses(({ oneBit }) => oneBit.losses);
    // Batches repeat every four steps, so the worst of four losses is compared.
    const worst = (losses: readonly number[]): number => Math.max(...losses);
    const atEnd = worst(found.slice(-4));
    expect(atEnd).toBeLessThan(0.9 * worst(found.slice(freezeStep - 4, freezeStep)));
    expect(atEnd).toBeLessThan(1.02 * worst(expected.adam.slice(-4)));
    expect(new Set(ranks.map(({ oneBit }) => oneBit.hash)).size).toBe(1);
  });

  it('OneBitAdam then sends about a 32nd of the bytes', () => {
    for (const { oneBit } of ranks) {
      const [warm = NaN, cold = NaN] = [oneBit.bytes[freezeStep - 2], oneBit.bytes.at(-1)];
      // An all-reduce of n bytes sends n bytes to compute the means, and n bytes to return them.
      expect((cold / (2 * warm)) * 32).toBeGreaterThan(0.9);
      expect((cold / (2 * warm)) * 32).toBeLessThan(1.4);
    }
  });
});
