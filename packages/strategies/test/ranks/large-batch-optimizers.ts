import { createHash } from 'node:crypto';
import { fromData, manualSeed, nn, optim, statistics, type Strategy } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const lambStrategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

export const freezeStep = 20;
export const oneBitSteps = 120;
const items = 24;

const training = z.object({
  losses: z.array(z.number()),
  hash: z.string(),
  /** Of the collectives of each step, as the process group's messages are counted. */
  bytes: z.array(z.number()),
});
export const outcome = z.object({ lamb: z.record(z.string(), training), oneBit: training });
export type Training = z.infer<typeof training>;

function build(): nn.Sequential {
  manualSeed(3);
  return new nn.Sequential(new nn.Linear(16, 64), new nn.Tanh(), new nn.Linear(64, 16));
}

/** A part of a batch of which 1 to 4 ranks have as much, and the loss on it. */
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

export async function main(context: RankContext): Promise<z.infer<typeof outcome>> {
  await join(context);
  const lamb: Record<string, Training> = {};
  for (const [name, strategy] of Object.entries(lambStrategies)) {
    const model = build();
    const parallel = await parallelize(model, strategy());
    const optimizer = new optim.Lamb(model.parameters(), { lr: 0.02 });
    const losses: number[] = [];
    for (let step = 0; step < 10; step++) {
      optimizer.zeroGrad();
      const loss = lossOn((x) => parallel.forward(x), context, step);
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    lamb[name] = { losses, hash: await hashOf(model), bytes: [] };
  }
  return { lamb, oneBit: await trainOneBit(context) };
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

/** The same on one rank, on whole batches. */
export async function alone(of: 'lamb' | 'adam'): Promise<number[]> {
  const model = build();
  const optimizer =
    of === 'lamb'
      ? new optim.Lamb(model.parameters(), { lr: 0.02 })
      : new optim.AdamW(model.parameters(), { lr: 3e-3, weightDecay: 0 });
  const losses: number[] = [];
  for (let step = 0; step < (of === 'lamb' ? 10 : oneBitSteps); step++) {
    optimizer.zeroGrad();
    const loss = lossOn((x) => model.forward(x), { rank: 0, size: 1 }, step);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}
