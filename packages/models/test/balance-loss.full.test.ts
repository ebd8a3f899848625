import { createMesh } from '@shardwise/collectives';
import { optim, setRank, type Strategy } from '@shardwise/core';
import {
  compose,
  contextParallel,
  ddp,
  expertParallel,
  fsdp,
  parallelize,
  pipeline,
  tensorParallel,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { build, decoderCases, expectClose, LENGTH, ROWS } from './decoder-cases.ts';
import { tokens } from './golden/formulas.ts';

/** Strategies whose ranks all get the same batch. Those of context parallelism have parts of its rows. */
const strategies = {
  'tensor parallelism': ['tp', () => tensorParallel()],
  'a pipeline': ['pp', () => pipeline({ microbatches: 1 })],
  FSDP: ['dp', () => fsdp()],
  'context parallelism by a ring': ['cp', () => compose(contextParallel(), ddp({ axis: 'cp' }))],
  'context parallelism by exchanged heads': [
    'cp',
    () => compose(contextParallel({ method: 'ulysses' }), fsdp({ axis: 'cp' })),
  ],
  'experts on the ranks of the sequences': [
    'cp',
    () => compose(expertParallel({ axis: 'cp' }), contextParallel()),
  ],
} as const satisfies Record<string, readonly [axis: string, make: () => Strategy]>;

type Losses = Record<string, number[]>;

/** Trains the Mixtral with a balance loss for the steps of the golden file. */
async function trainEach({ size, group, device }: RankInThread): Promise<Losses> {
  const golden = decoderCases.find(({ name }) => name === 'Mixtral with a balance loss');
  if (golden === undefined) throw new RangeError('no such case');
  const found: Record<string, number[]> = {};
  for (const [name, [axis, make]] of Object.entries(strategies)) {
    setRank({ device, mesh: await createMesh(group, [{ name: axis, size: size }]) });
    const inner = await build(golden);
    const model = await parallelize(inner, make());
    const optimizer = new optim.AdamW(inner.parameters(), { lr: 1e-2, weightDecay: 0.01 });
    const losses: number[] = [];
    for (const [step] of golden.losses.entries()) {
      const batch = tokens(`step ${step}`, [ROWS, LENGTH]);
      const loss = model.forward(batch, { labels: batch });
      optimizer.zeroGrad();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    found[name] = losses;
  }
  return found;
}

const RANKS = 2;
let ranks: readonly Losses[] = [];

beforeAll(async () => {
  ranks = await onRanks(RANKS, trainEach, onCpu);
});

describe("The balance loss of Mixtral's layers is that of transformers:", () => {
  const golden = decoderCases.find(({ name }) => name === 'Mixtral with a balance loss');

  it.each(Object.keys(strategies))('two ranks of %s train by it', (name) => {
    for (const rank of ranks) expectClose(rank[name] ?? expect.fail(name), golden?.losses);
  });
});
