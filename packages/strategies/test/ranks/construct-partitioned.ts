import { createHash } from 'node:crypto';
import { createMesh } from '@shardwise/collectives';
import { manualSeed, type nn, randomState, setRank, type Strategy } from '@shardwise/core';
import { currentSession, elementCount } from '@shardwise/core/extend';
import {
  colwiseParallel,
  compose,
  constructSharded,
  ddp,
  fsdp,
  parallelize,
  planFor,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { TiedGpt, tiedStyles } from './tensor-parallel-models.ts';

export const dp = 2;
export const tp = 2;

const built = z.object({
  /** The bytes of parameters on this rank before a strategy is applied. */
  keptBytes: z.number(),
  /** The bytes of the parts by the plan, including padding. */
  plannedBytes: z.number(),
  /** The SHA-256 of all whole parameters. */
  hash: z.string(),
  /** The state of the random generators after the model was built. */
  random: z.string(),
});

export const outcome = z.object({
  whole: built.pick({ hash: true, random: true }),
  fsdp: built,
  'zero-3': built,
  /** The messages of the errors that refuse a model or strategy. */
  refusals: z.record(z.string(), z.string()),
});
export type Outcome = z.infer<typeof outcome>;

export async function main(context: RankContext): Promise<Outcome> {
  const { group } = await join(context);
  const mesh = await createMesh(group, [
    { name: 'dp', size: dp },
    { name: 'tp', size: tp },
  ]);
  setRank({ device: currentSession().backend, mesh });
  manualSeed(7);
  const model = new TiedGpt();
  const random = JSON.stringify(randomState());
  return {
    whole: { hash: await hashOf(model), random },
    fsdp: await build(compose(tensorParallel(tiedStyles), fsdp())),
    'zero-3': await build(compose(tensorParallel(tiedStyles), zero({ stage: 3 }))),
    refusals: {
      'without tensorParallel': await refusal(fsdp(), fsdp()),
      'other styles': await refusal(
        compose(tensorParallel({ 'blocks.*.up': colwiseParallel() }), fsdp()),
        fsdp(),
      ),
      'whole parameters': await refusal(fsdp(), zero({ stage: 1 })),
      'whole parameters, ddp': await refusal(fsdp(), ddp()),
    },
  };
}

async function build(composed: Strategy): Promise<Outcome['fsdp']> {
  manualSeed(7);
  const model = constructSharded(() => new TiedGpt(), composed);
  const random = JSON.stringify(randomState());
  const keptBytes = model
    .parameters()
    .reduce((sum, { initialPart }) => sum + (initialPart?.bytes.byteLength ?? NaN), 0);
  const plannedBytes = planFor(model, composed).parameters.reduce((sum, { shape, parameter }) => {
    const own = shape.map((size, dim) => (parameter.dims[dim]?.includes('tp') ? size / tp : size));
    const [rows = 1, ...rest] = own;
    const isFlat = (parameter.flat ?? []).length > 0;
    const elements = isFlat
      ? Math.ceil(elementCount(own) / dp)
      : Math.ceil(rows / dp) * elementCount(rest);
    return sum + 4 * elements;
  }, 0);
  await parallelize(model, composed);
  return { keptBytes, plannedBytes, hash: await hashOf(model), random };
}

async function refusal(constructed: Strategy, strategy: Strategy): Promise<string> {
  manualSeed(7);
  const model = constructSharded(() => new TiedGpt(), constructed);
  const refused = parallelize(model, compose(tensorParallel(tiedStyles), strategy));
  return refused.then(
    () => '',
    (error: unknown) => String(error),
  );
}

async function hashOf(model: nn.Module): Promise<string> {
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(await model.stateDict())) hash.update(bytes);
  return hash.digest('hex');
}
