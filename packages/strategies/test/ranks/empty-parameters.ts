import { concat, manualSeed, nn, optim, type Strategy, type Tensor, tensor } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const bf16 = { parameterDtype: 'bf16' } as const;

export const strategies: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
  'ZeRO-1 in bf16': () => zero({ stage: 1, mixedPrecision: bf16 }),
  'FSDP in bf16': () => fsdp({ mixedPrecision: bf16 }),
};

/** The losses under each strategy, including those after a checkpoint, with the empty parameters and without them. */
export const observations = z.record(
  z.string(),
  z.object({ losses: z.array(z.number()), without: z.array(z.number()) }),
);

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

export async function main(context: RankContext): Promise<z.infer<typeof observations>> {
  const { group } = await join(context);
  const directory = z.string().parse(context.data);
  const found: z.infer<typeof observations> = {};
  for (const [name, strategy] of Object.entries(strategies)) {
    const run = (hasEmpty: boolean): Promise<number[]> =>
      train(strategy, hasEmpty, `${directory}/${name} ${hasEmpty}`);
    found[name] = { losses: await run(true), without: await run(false) };
  }
  return found;

  async function train(
    strategy: () => Strategy,
    hasEmpty: boolean,
    folder: string,
  ): Promise<number[]> {
    const losses: number[] = [];
    const begin = async (): ReturnType<typeof build> => build(strategy(), hasEmpty);
    const steps = async ({ parallel, optimizer }: Awaited<ReturnType<typeof begin>>) => {
      for (let step = 0; step < 3; step++) {
        optimizer.zeroGrad();
        const loss = parallel
          .forward(tensor([[1, context.rank, step, 2]]))
          .square()
          .mean();
        loss.backward();
        optim.clipGradNorm(parallel.module.parameters(), 1);
        await optimizer.step();
        losses.push(await loss.item());
      }
    };
    const first = await begin();
    await steps(first);
    const { parallel, optimizer } = first;
    await checkpoints.save(folder, { step: 3, model: parallel.module, optimizer }, { group });
    const second = await begin();
    const checkpoint = await checkpoints.load(folder);
    await checkpoints.loadModel(checkpoint, second.parallel.module);
    await checkpoints.loadOptimizer(checkpoint, second.parallel.module, second.optimizer);
    await steps(second);
    return losses;
  }
}

async function build(strategy: Strategy, hasEmpty: boolean) {
  const parallel = await parallelize(new Net(hasEmpty), strategy);
  return { parallel, optimizer: new optim.AdamW(parallel.module.parameters(), { lr: 0.05 }) };
}
