import { cpu } from '@shardwise/backend-cpu';
import { createMesh, joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  allReduce,
  fromData,
  type MeshAxis,
  noGrad,
  optim,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import type { PretrainedModel } from '@shardwise/models';
import {
  compose,
  contextParallel,
  ddp,
  expertParallel,
  fsdp,
  onEveryRank,
  parallelize,
  pipeline,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { build, decoderCases } from '../decoder-cases.ts';
import { summary, tokens } from '../golden/formulas.ts';

/** The strategies, none of which is told anything of the model. */
const strategies: Readonly<Record<string, () => Strategy>> = {
  ddp: () => ddp(),
  'zero-3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
  tp: () => tensorParallel(),
  pp: () => pipeline({ microbatches: 2 }),
  ep: () => expertParallel(),
  'tp × fsdp': () => compose(tensorParallel(), fsdp()),
  'cp ring': () => compose(contextParallel(), ddp({ axis: 'cp' })),
  'cp allGather': () => compose(contextParallel({ method: 'allGather' }), fsdp({ axis: 'cp' })),
  'cp ulysses': () =>
    compose(contextParallel({ method: 'ulysses' }), zero({ stage: 2, axis: 'cp' })),
  'tp × cp': () => compose(tensorParallel(), contextParallel(), ddp({ axis: 'cp' })),
  'pp × cp': () => compose(pipeline({ microbatches: 2 }), contextParallel(), ddp({ axis: 'cp' })),
};

export interface StrategyTask {
  readonly axes: readonly MeshAxis[];
  readonly models: readonly string[];
  readonly strategies: readonly string[];
  /** Whether rows are packed documents of several lengths, which differ from row to row. */
  readonly isPacked: boolean;
}

/** The losses of the steps, and the summary of the logits after them. */
const trained = z.object({ losses: z.array(z.number()), logits: z.array(z.number()) });

export type Trained = z.infer<typeof trained>;

/** What was trained on one rank and on several, by model and strategy. */
export const outcomes = z.record(
  z.string(),
  z.object({ alone: trained, parallel: z.record(z.string(), trained) }),
);

const ROWS = 4;
const LENGTH = 12;
const STEPS = 2;

export async function main({
  rank,
  world,
  data,
}: RankContext<ThreadsWorld, StrategyTask>): Promise<z.infer<typeof outcomes>> {
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const mesh = await createMesh(joinThreadsWorld(world, rank), data.axes);
  setRank({ device: await cpu({ memory: world.memory, ...region }), mesh });
  const divided = data.axes.find(({ name }) => name === 'dp' || name === 'ep');
  const shares = divided?.size ?? 1;
  const place = divided === undefined ? 0 : mesh.coordinate(divided.name);
  const found: z.infer<typeof outcomes> = {};
  for (const name of data.models) {
    const golden = decoderCases.find((each) => each.name === name);
    if (golden === undefined) throw new RangeError(`no model ${name}`);
    const documents = data.isPacked ? packed() : undefined;
    const common = { hasEqualParts: shares > 1, axis: divided?.name ?? '', documents };
    const isPipeline = data.axes.some((axis) => axis.name === 'pp');
    const alone = await train(await build(golden), {
      ...common,
      strategy: null,
      shares: 1,
      place: 0,
      isPipeline: false,
    });
    const parallel: Record<string, Trained> = {};
    for (const strategy of data.strategies) {
      const own = strategies[strategy]?.() ?? null;
      parallel[strategy] = await train(await build(golden), {
        strategy: own,
        shares,
        place,
        isPipeline,
        ...common,
      });
    }
    found[name] = { alone, parallel };
  }
  return found;
}

interface Training {
  readonly strategy: Strategy | null;
  /** The number of parts of the batch, and that of this rank. */
  readonly shares: number;
  readonly place: number;
  readonly isPipeline: boolean;
  /** Whether both halves of the batch have as many labels. */
  readonly hasEqualParts: boolean;
  /** The axis whose ranks have the parts. */
  readonly axis: string;
  /** Shape: i32 [ROWS, LENGTH]. Undefined: each row is one document. */
  readonly documents: Tensor | undefined;
}

/** Shape: -> i32 [ROWS, LENGTH]. */
function packed(): Tensor {
  const lengths = [[5, 7], [1, 2, 9], [12], [4, 4, 4]];
  const numbers = lengths.flatMap((row) =>
    row.flatMap((length, document) => Array<number>(length).fill(document)),
  );
  return fromData(Int32Array.from(numbers), [ROWS, LENGTH], 'i32');
}

async function train(
  inner: PretrainedModel,
  { strategy, shares, place, isPipeline, hasEqualParts, axis, documents }: Training,
): Promise<Trained> {
  const model = strategy === null ? inner : await parallelize(inner, strategy);
  const optimizer = new optim.AdamW(inner.parameters(), { lr: 1e-2 });
  const rows = ROWS / shares;
  const own = (x: Tensor): Tensor => x.slice(0, place * rows, (place + 1) * rows);
  const call = documents === undefined ? {} : { documents: own(documents) };
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    const ids = tokens(`step ${step}`, [ROWS, LENGTH]);
    const values = Int32Array.from(await ids.data(), Number);
    // Microbatches of a pipeline have different numbers of labels. Ranks with a part of the batch have the same.
    values.fill(-100, 0, 7);
    if (hasEqualParts) values.fill(-100, 2 * LENGTH, 2 * LENGTH + 7);
    const labels = fromData(values, ids.shape, 'i32');
    optimizer.zeroGrad();
    const loss = model.forward(own(ids), { ...call, labels: own(labels) });
    loss.backward();
    const sum = shares > 1 ? allReduce(loss.detach(), axis) : loss.detach();
    await optimizer.step();
    losses.push((await sum.item()) / shares);
  }
  const evaluated = noGrad(() => model.forward(own(tokens('ids', [ROWS, LENGTH])), call));
  const logits = await (isPipeline ? await onEveryRank(evaluated) : evaluated).data();
  const [norm, product] = summary('logits', logits);
  return { losses, logits: [norm, product] };
}
