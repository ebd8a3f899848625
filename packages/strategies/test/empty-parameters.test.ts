import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { concat, manualSeed, nn, optim, type Strategy, type Tensor, tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const bf16 = { parameterDtype: 'bf16' } as const;

const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'ZeRO-1 in bf16': () => zero({ stage: 1, mixedPrecision: bf16 }),
  'FSDP in bf16': () => fsdp({ mixedPrecision: bf16 }),
};

/** A model with an adapter of rank 0 and learned prompts with no rows. */
class Net extends nn.Module {
  readonly head: nn.Linear;
  readonly down: nn.Parameter | null;
  readonly prompts: nn.Parameter | null;

  constructor(hasEmpty: boolean) {
    super();
    manualSeed(0);
    this.head = new nn.Linear(4, 3);
    this.down = hasEmpty ? new nn.Parameter(new Float32Array(), [4, 0]) : null;
    this.prompts = hasEmpty ? new nn.Parameter(new Float32Array(), [0, 4]) : null;
  }

  /** Shape: x [B, 4] -> [B, 3]. */
  forward(x: Tensor): Tensor {
    if (this.down === null || this.prompts === null) return this.head.forward(x);
    const adapted = x.add(x.matmul(this.down).matmul(this.down.transpose(0, 1)));
    return this.head.forward(concat([this.prompts, adapted], 0));
  }
}

async function build(strategy: Strategy, hasEmpty: boolean) {
  const parallel = await parallelize(new Net(hasEmpty), strategy);
  return { parallel, optimizer: new optim.AdamW(parallel.module.parameters(), { lr: 0.05 }) };
}

describe('a model with parameters that have no elements', () => {
  let directory = '';

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-empty-'));
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it.each(Object.entries(strategies))(
    'trains, is saved and is loaded as one without: %s',
    async (name, strategy) => {
      const lossesOf = (hasEmpty: boolean): Promise<readonly number[][]> =>
        onRanks(2, async ({ rank, group }) => {
          const losses: number[] = [];
          const train = async ({ parallel, optimizer }: Awaited<ReturnType<typeof build>>) => {
            for (let step = 0; step < 3; step++) {
              optimizer.zeroGrad();
              const loss = parallel
                .forward(tensor([[1, rank, step, 2]]))
                .square()
                .mean();
              loss.backward();
              optim.clipGradNorm(parallel.module.parameters(), 1);
              await optimizer.step();
              losses.push(await loss.item());
            }
          };
          const folder = join(directory, `${name} ${hasEmpty}`);
          const first = await build(strategy(), hasEmpty);
          await train(first);
          const { parallel, optimizer } = first;
          await checkpoints.save(folder, { step: 3, model: parallel.module, optimizer }, { group });
          const second = await build(strategy(), hasEmpty);
          const checkpoint = await checkpoints.load(folder);
          await checkpoints.loadModel(checkpoint, second.parallel.module);
          await checkpoints.loadOptimizer(checkpoint, second.parallel.module, second.optimizer);
          await train(second);
          expect(losses).toHaveLength(6);
          return losses;
        });
      expect(await lossesOf(true)).toEqual(await lossesOf(false));
    },
  );
});
