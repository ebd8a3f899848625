import {
  arange,
  fromData,
  manualSeed,
  nn,
  ones,
  optim,
  statistics,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  collectivesOf,
  compose,
  contextParallel,
  type ContextParallelOptions,
  ddp,
  expertParallel,
  explain,
  fsdp,
  parallelize,
  type PlannedModel,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { failureOf } from './failure-of.ts';

const size = 2;
const [rows, width, heads] = [2, 8, 2];

/** Runs `body` as both ranks that divide the tokens. */
function onParts<T>(body: () => Promise<T>): Promise<readonly T[]> {
  return onRanks(
    size,
    () => {
      manualSeed(0);
      return body();
    },
    { axes: [{ name: 'cp', size }] },
  );
}

type Attend = (q: Tensor, k: Tensor, v: Tensor) => Tensor;

/** Attention as a function of its heads says. Shape: x [B, T, C] -> [B, T, C]. */
class Probe extends nn.Module {
  readonly heads = new nn.Linear(width, 3 * width, { bias: false });
  readonly attend: Attend;

  constructor(attend: Attend) {
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

function over(options: ContextParallelOptions = {}): Strategy {
  return compose(contextParallel(options), ddp({ axis: 'cp' }));
}

function probe(
  options?: ContextParallelOptions,
  attend: Attend = (q, k, v) => attention(q, k, v, { causal: true }),
): Promise<PlannedModel<Probe, [x: Tensor], Tensor>> {
  return parallelize(new Probe(attend), over(options));
}

function inputOf(length: number): Tensor {
  const numbers = Array.from({ length: rows * length * width }, (_, i) => Math.sin(i));
  return fromData(Float32Array.from(numbers), [rows, length, width], 'f32');
}

describe('contextParallel', () => {
  it.each<[what: string, says: RegExp, attend: Attend, options?: ContextParallelOptions]>([
    [
      'a mask of queries and keys',
      /a mask of shape \[1, 1, 4, 4\].*a mask of keys alone/,
      (q, k, v) => attention(q, k, v, { mask: ones([q.shape[2] ?? 0, k.shape[2] ?? 0]).gt(0) }),
    ],
    [
      'keys of another length',
      /4 queries and 2 keys that differ between the ranks/,
      (q, k, v) => attention(q, k.slice(2, 0, 2), v.slice(2, 0, 2)),
    ],
    [
      'dropout of weights',
      /method 'ring'.*dropout.*'allGather' or 'ulysses'/,
      (q, k, v) => attention(q, k, v, { dropout: 0.5 }),
    ],
    [
      'tokens that the model numbers',
      /arange\(4\).*arange: 'places'/,
      (q, k, v) => attention(q.add(arange(q.shape[2] ?? 0).reshape([1, 1, -1, 1])), k, v),
    ],
    [
      'fewer heads than ranks',
      /1 heads for 2 ranks.*at most 1 ranks/,
      (q, k, v) => attention(q.slice(1, 0, 1), k.slice(1, 0, 1), v.slice(1, 0, 1)),
      { method: 'ulysses' },
    ],
    [
      'a result that mixes tokens',
      /a result of shape.*may mix tokens/,
      (q: Tensor) => q.slice(2, 0, 1),
    ],
  ])('refuses %s on all ranks', async (_, says, attend, options) => {
    await onParts(async () => {
      const model = await probe(options, attend);
      expect(() => model.forward(inputOf(8))).toThrow(says);
    });
  });

  it.each<[what: string, says: RegExp, strategy: Strategy, length: number]>([
    [
      'a loss of unknown weight',
      /nothing says how many of them count.*lossWeight: 'tokens'/,
      over(),
      8,
    ],
    [
      'a mean loss over padding',
      /1 tokens of padding, which would count/,
      over({ lossWeight: 'tokens' }),
      7,
    ],
  ])('refuses %s on all ranks', async (_, says, strategy, length) => {
    await onParts(async () => {
      const model = await parallelize(new Losing(), strategy);
      expect(() => model.forward(inputOf(length))).toThrow(says);
    });
  });

  it('refuses a strategy that shares nothing on all ranks', async () => {
    const attempt = (): Promise<unknown> => parallelize(new Losing(), contextParallel());
    for (const failure of await onParts(() => failureOf(attempt()))) {
      expect(failure?.message).toMatch(
        /each rank would train its own copy.*ddp\(\{ axis: 'cp' \}\)/,
      );
    }
  });

  it.each(['ring', 'allGather', 'ulysses'] as const)(
    'sends the bytes that its plan says, with the method %s',
    async (method) => {
      await onParts(async () => {
        const parallel = await probe({ method });
        const optimizer = new optim.SGD(parallel.module.parameters(), { lr: 0.1 });
        const bytesOfStep = async (): Promise<number> => {
          const before = statistics().collectiveBytes;
          optimizer.zeroGrad();
          parallel.forward(inputOf(16)).square().mean().backward();
          await optimizer.step();
          return statistics().collectiveBytes - before;
        };
        // The first step also compares the batches of the ranks, and their parameters.
        for (let step = 0; step < 2; step++) await bytesOfStep();
        const planned = collectivesOf(parallel.plan)
          .filter(({ when }) => when !== 'start')
          .reduce((sum, { bytes }) => sum + bytes, 0);
        expect(planned).toBeGreaterThan(0);
        expect(await bytesOfStep()).toBe(planned);
      });
    },
  );

  it('says in explain who has which tokens, and what travels', async () => {
    await onParts(async () => {
      const parallel = await probe({ method: 'ring' });
      await parallel.forward(inputOf(16)).mean().item();
      const explained = explain(parallel.plan);
      expect(explained).toContain('rank 0 has the tokens 0-0 and 3-3 of each 4');
      expect(explained).toMatch(/attention\.0.*keys to hop 1.*cp.*sendRecv.*sendRecv/);
      expect(explained).toMatch(/gradients of keys to hop 1/);
      expect(explained).toMatch(/result.*tokens to those of all ranks/);
    });
  });

  it('returns the loss of all tokens on each rank', async () => {
    const [first, second] = await onParts(async () => {
      const lossOf = async (
        lossWeight: NonNullable<ContextParallelOptions['lossWeight']>,
      ): Promise<number> => {
        manualSeed(0);
        const parallel = await parallelize(new Losing(), over({ lossWeight }));
        return parallel.forward(inputOf(8)).item();
      };
      const loss = await lossOf('tokens');
      expect(loss).toBeCloseTo(await lossOf((x) => (x instanceof nn.Parameter ? 0 : rows)), 6);
      return loss;
    });
    expect(second).toBe(first);
  });

  it('takes the ranks that divide experts, which share the other parameters', async () => {
    await onParts(async () => {
      const alone = await new Experts().forward(inputOf(8)).square().mean().item();
      manualSeed(0);
      const divided = await parallelize(
        new Experts(),
        compose(expertParallel({ axis: 'cp', k: 1 }), contextParallel()),
      );
      const loss = divided.forward(inputOf(8)).square().mean();
      loss.backward();
      expect(await loss.item()).toBeCloseTo(alone, 5);
    });
  });

  it('refuses options that do not fit each other', () => {
    expect(() => contextParallel({ ulyssesRanks: 2 })).toThrow(/an option of the method 'usp'/);
    const axes = [{ name: 'cp', size: 3 }];
    const plan = (): unknown => contextParallel({ method: 'usp' }).plan({ parameters: [] }, axes);
    expect(plan).toThrow(/3 ranks, which is not a multiple/);
    expect(() => fsdp({ axis: 'cp', replicas: 'cp' })).toThrow(/one axis/);
  });
});
