import {
  arange,
  fromData,
  LineMesh,
  manualSeed,
  nn,
  ones,
  optim,
  setRank,
  statistics,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  collectivesOf,
  compose,
  contextParallel,
  type ContextParallelOptions,
  ddp,
  expertParallel,
  explain,
  parallelize,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

export const observed = z.object({
  /** What passes that cannot be exact throw, by name. */
  errors: z.record(z.string(), z.string()),
  /** Bytes of the messages of a step, as they were counted and as the plan says, by method. */
  bytes: z.record(z.string(), z.object({ counted: z.number(), planned: z.number() })),
  explained: z.string(),
  /** The loss of a model that returns its loss, by how it is weighted. */
  losses: z.record(z.string(), z.number()),
  /** The loss of a model with experts that the same ranks divide, and that of one rank. */
  experts: z.object({ divided: z.number(), alone: z.number() }),
});
export type Observed = z.infer<typeof observed>;

const [rows, width, heads] = [2, 8, 2];

/** Attention as a function of its heads says. */
class Probe extends nn.Module {
  readonly heads = new nn.Linear(width, 3 * width, { bias: false });
  readonly attend: (q: Tensor, k: Tensor, v: Tensor) => Tensor;

  constructor(attend: (q: Tensor, k: Tensor, v: Tensor) => Tensor) {
    super();
    this.attend = attend;
  }

  forward(x: Tensor): Tensor {
    const all = this.heads.forward(x);
    const [, length = 0] = x.shape;
    const [q, k, v] = all
      .reshape([rows, length, 3 * heads, -1])
      .transpose(1, 2)
      .split(heads, 1);
    if (q === undefined || k === undefined || v === undefined) return x;
    return this.attend(q, k, v).transpose(1, 2).flatten(2);
  }
}

/** A model that returns the mean of the squares of its tokens. */
class Losing extends nn.Module {
  readonly scale = new nn.Linear(width, width);

  forward(x: Tensor): Tensor {
    return this.scale.forward(x).square().mean();
  }
}

class Experts extends nn.Module {
  readonly experts = new nn.MixtureOfExperts(width, width, 2, { gate: nn.topKGate({ k: 1 }) });

  forward(x: Tensor): Tensor {
    return this.experts.forward(x);
  }
}

const { scaledDotProductAttention: attention } = nn.functional;
const causal: Probe['attend'] = (q, k, v) => attention(q, k, v, { causal: true });
const over = (options: ContextParallelOptions = {}): Strategy =>
  compose(contextParallel(options), ddp({ axis: 'cp' }));

function inputOf(length: number): Tensor {
  const numbers = Array.from({ length: rows * length * width }, (_, i) => Math.sin(i));
  return fromData(Float32Array.from(numbers), [rows, length, width], 'f32');
}

async function errorOf(
  attend: Probe['attend'],
  options: ContextParallelOptions = {},
  length = 8,
): Promise<string> {
  const parallel = await parallelize(new Probe(attend), over(options));
  try {
    parallel.forward(inputOf(length));
  } catch (error) {
    return String(error);
  }
  return 'none';
}

async function bytesOf(
  method: NonNullable<ContextParallelOptions['method']>,
): Promise<{ counted: number; planned: number; explained: string }> {
  const parallel = await parallelize(new Probe(causal), over({ method }));
  const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
  const step = async (): Promise<number> => {
    const before = statistics().collectiveBytes;
    optimizer.zeroGrad();
    parallel.forward(inputOf(16)).square().mean().backward();
    await optimizer.step();
    return statistics().collectiveBytes - before;
  };
  // The first step also compares the batches of the ranks, and their parameters.
  await step();
  await step();
  const counted = await step();
  const planned = collectivesOf(parallel.plan)
    .filter(({ when }) => when !== 'start')
    .reduce((sum, { bytes }) => sum + bytes, 0);
  return { counted, planned, explained: explain(parallel.plan) };
}

export async function main(context: RankContext): Promise<Observed> {
  const { group } = await join(context);
  const { backend } = currentSession();
  setRank({ device: backend, mesh: new LineMesh('cp', group) });
  manualSeed(0);
  const errors: Record<string, string> = {
    'a mask of queries and keys': await errorOf((q, k, v) =>
      attention(q, k, v, { mask: ones([q.shape[2] ?? 0, k.shape[2] ?? 0]).gt(0) }),
    ),
    'keys of another length': await errorOf((q, k, v) =>
      attention(q, k.slice(2, 0, 2), v.slice(2, 0, 2)),
    ),
    'dropout of weights': await errorOf((q, k, v) => attention(q, k, v, { dropout: 0.5 })),
    'tokens that the model numbers': await errorOf((q, k, v) =>
      attention(q.add(arange(q.shape[2] ?? 0).reshape([1, 1, -1, 1])), k, v),
    ),
    'fewer heads than ranks': await errorOf(
      (q, k, v) => attention(q.slice(1, 0, 1), k.slice(1, 0, 1), v.slice(1, 0, 1)),
      {
        method: 'ulysses',
      },
    ),
    'a result that mixes tokens': await errorOf((q) => q.slice(2, 0, 1)),
  };
  const losing = await parallelize(new Losing(), over());
  try {
    losing.forward(inputOf(8));
  } catch (error) {
    errors['a loss of unknown weight'] = String(error);
  }
  const numbered = await parallelize(new Losing(), over({ lossWeight: 'tokens' }));
  try {
    numbered.forward(inputOf(7));
  } catch (error) {
    errors['a mean loss over padding'] = String(error);
  }
  try {
    await parallelize(new Losing(), contextParallel());
  } catch (error) {
    errors['a strategy that shares nothing'] = String(error);
  }
  const losses: Record<string, number> = {};
  for (const [name, lossWeight] of Object.entries({
    tokens: 'tokens',
    counted: (x: unknown) => (x instanceof nn.Parameter ? 0 : rows),
  } as const)) {
    manualSeed(0);
    const parallel = await parallelize(new Losing(), over({ lossWeight }));
    losses[name] = await parallel.forward(inputOf(8)).item();
  }
  const methods = ['ring', 'allGather', 'ulysses'] as const;
  const bytes: Observed['bytes'] = {};
  let explained = '';
  for (const method of methods) {
    const { explained: text, ...found } = await bytesOf(method);
    bytes[method] = found;
    if (method === 'ring') explained = text;
  }
  manualSeed(0);
  const alone = new Experts();
  const expected = await alone.forward(inputOf(8)).square().mean().item();
  manualSeed(0);
  const divided = await parallelize(
    new Experts(),
    compose(expertParallel({ axis: 'cp', k: 1 }), contextParallel()),
  );
  const found = divided.forward(inputOf(8)).square().mean();
  found.backward();
  return {
    errors,
    bytes,
    explained,
    losses,
    experts: { divided: await found.item(), alone: expected },
  };
}
