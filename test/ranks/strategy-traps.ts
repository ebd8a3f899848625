import * as sw from '@shardwise/core';
import { ddp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from './join.ts';

export const found = z.record(z.string(), z.array(z.number()));

/** What each rank has in the end; gradients are the rank's number plus one, and their mean over two ranks 1.5; lr is 1. */
const traps: Readonly<Record<string, (gradient: number) => Promise<sw.Tensor>>> = {
  'two losses': async (gradient) => {
    const { model, optimizer, forward } = await trained();
    forward('left').mul(gradient).backward();
    forward('right').mul(gradient).backward();
    await optimizer.step();
    return sw.stack([model.left, model.right]);
  },
  'frozen, then released': async (gradient) => {
    const { model, optimizer, forward } = await trained();
    model.left.requiresGrad_(false).requiresGrad_(true);
    forward('left').add(forward('right')).mul(gradient).backward();
    await optimizer.step();
    return model.left;
  },
  'frozen after parallelize': async (gradient) => {
    const { model, optimizer, forward } = await trained();
    model.right.requiresGrad_(false);
    forward('left').mul(gradient).backward();
    await optimizer.step();
    return sw.stack([model.left, model.right]);
  },
  'evaluation after training': async (gradient) => {
    const { model, forward } = await trained();
    sw.noGrad(() => model.seen.assign(model.seen.add(gradient)));
    model.eval();
    return forward('left').detach();
  },
};

class Two extends sw.Module {
  readonly left = new sw.Parameter(Float32Array.of(0), []);
  readonly right = new sw.Parameter(Float32Array.of(0), []);
  readonly seen = new sw.BufferTensor(Float32Array.of(0), []);

  /** Shape: -> []. */
  forward(which: 'left' | 'right'): sw.Tensor {
    return this[which].add(this.seen);
  }
}

async function trained() {
  const model = new Two();
  const parallel = await parallelize(model, ddp());
  const optimizer = new sw.SGD(model.parameters(), { lr: 1 });
  return { model, optimizer, forward: (which: 'left' | 'right') => parallel.forward(which) };
}

export async function main(context: RankContext): Promise<z.infer<typeof found>> {
  await join(context, 'interpreter');
  const values: z.infer<typeof found> = {};
  for (const [name, run] of Object.entries(traps)) {
    values[name] = Array.from(await (await run(context.rank + 1)).data(), Number);
  }
  return values;
}
