import { createHash } from 'node:crypto';
import { createMesh } from '@shardwise/collectives';
import {
  fromData,
  manualSeed,
  nn,
  optim,
  setRank,
  statistics,
  type Strategy,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
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
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const wholeStrategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

/** Optimizers whose updates depend on whole parameters. */
export const wholeOptimizers = {
  Lamb: (model: nn.Module) => new optim.Lamb(model.parameters(), { lr: 0.02 }),
  Adafactor: (model: nn.Module) => new optim.Adafactor(model.parameters(), { lr: 0.05 }),
  Muon: (model: nn.Module) =>
    new optim.Muon(
      model.parameters().filter(({ shape }) => shape.length === 2),
      { lr: 0.02 },
    ),
} satisfies Record<string, (model: nn.Module) => optim.Optimizer>;
export type WholeOptimizer = keyof typeof wholeOptimizers;
export const wholeNames = ['Lamb', 'Adafactor', 'Muon'] as const satisfies WholeOptimizer[];

export const wholeKey = (optimizer: string, strategy: string): string =>
  `${optimizer} under ${strategy}`;

export const freezeStep = 20;
export const oneBitSteps = 120;
const items = 24;

const training = z.object({
  losses: z.array(z.number()),
  hash: z.string(),
  /** The bytes of the collectives of each step, as counted in the process group's messages. */
  bytes: z.array(z.number()),
});
export const outcome = z.object({ whole: z.record(z.string(), training), oneBit: training });
export type Training = z.infer<typeof training>;

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

/** The number of ranks that compute a layer together. */
export const task = z.object({ tp: z.int() });

const styles = { '0': colwiseParallel(), '2': rowwiseParallel() };

export async function main(context: RankContext): Promise<z.infer<typeof outcome>> {
  const { group } = await join(context);
  const { tp } = task.parse(context.data);
  if (tp === 1) {
    const whole = await trainWhole(wholeStrategies, context);
    return { whole, oneBit: await trainOneBit(context) };
  }
  const dp = context.size / tp;
  const mesh = await createMesh(group, [
    { name: 'dp', size: dp },
    { name: 'tp', size: tp },
  ]);
  setRank({ device: currentSession().backend, mesh });
  const composed = Object.entries(wholeStrategies).map(
    ([name, strategy]) =>
      [name, () => compose(tensorParallel(styles), strategy())] satisfies [string, () => Strategy],
  );
  const place = { rank: mesh.coordinate('dp'), size: dp };
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
      for (let step = 0; step < 10; step++) {
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

async function trainOneBit(context: RankContext): Promise<Training> {
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
export async function alone(of: WholeOptimizer | 'adam'): Promise<number[]> {
  const model = build();
  const optimizer =
    of === 'adam'
      ? new optim.AdamW(model.parameters(), { lr: 3e-3, weightDecay: 0 })
      : wholeOptimizers[of](model);
  const losses: number[] = [];
  for (let step = 0; step < (of === 'adam' ? oneBitSteps : 10); step++) {
    model.zeroGrad();
    const loss = lossOn((x) => model.forward(x), { rank: 0, size: 1 }, step);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}
