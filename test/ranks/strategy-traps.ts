import * as sw from '@shardwise/core';
import { constructSharded, ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { z } from 'zod';
import { join } from './join.ts';

export const found = z.record(z.string(), z.array(z.number()));

/**
 * The final values on each rank. The gradient is the rank's number plus one, and its mean over two ranks is 1.5. The
 * learning rate is 1.
 */
const traps: Readonly<Record<string, (gradient: number, run: Run) => Promise<sw.Tensor>>> = {
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
  'a parameter used outside of forward': async (gradient) => {
    const found: sw.Tensor[] = [];
    for (const sharded of [zero({ stage: 1 }), zero({ stage: 2 }), zero({ stage: 3 }), fsdp()]) {
      const { model, optimizer, forward } = await trained(sharded);
      forward('right').add(model.left.add(2).square()).mul(gradient).backward();
      await optimizer.step();
      found.push(model.left, model.right);
    }
    return sw.stack(found);
  },
  'stateDict()': async () => {
    const { model } = await trained(fsdp());
    const { list } = await model.stateDict();
    return sw.fromData(new Float32Array(list?.bytes.slice().buffer ?? []), [3], 'f32');
  },
  'ranks that differ': async (gradient, { group, directory }) => {
    const { model } = await trained();
    model.left.assign(sw.full([], gradient));
    const saved = checkpoints.save(`${directory}/differ`, { step: 1, model }, { group });
    return sw.tensor([await saved.then(() => 0, codeLength)]);
  },
  'other seeds': async (gradient) => {
    sw.manualSeed(gradient);
    const model = constructSharded(() => new sw.nn.Linear(4, 4), fsdp());
    return sw.tensor([await parallelize(model, fsdp()).then(() => 0, codeLength)]);
  },
  'settings that differ': async (gradient, { group, directory }) => {
    const { model } = await trained(fsdp());
    const optimizer = new sw.optim.SGD(model.parameters(), { lr: gradient });
    const saved = checkpoints.save(
      `${directory}/settings`,
      { step: 1, model, optimizer },
      { group },
    );
    return sw.tensor([await saved.then(() => 0, codeLength)]);
  },
  'metrics that differ': async (metric) => {
    const groups = { paramGroups: [{ lr: 0.5 }] };
    const plateau = new sw.optim.ReduceLROnPlateau(groups, { patience: 0, factor: 0.5 });
    const refused = await plateau.step(metric).then(() => 0, codeLength);
    for (const loss of [1, 1]) await plateau.step(loss);
    return sw.tensor([refused, ...plateau.learningRates]);
  },
  'evaluation after training': async (gradient) => {
    const { model, forward } = await trained();
    sw.noGrad(() => model.seen.assign(model.seen.add(gradient)));
    model.eval();
    return forward('left').detach();
  },
};

interface Run {
  readonly group: sw.ProcessGroup;
  readonly directory: string;
}

class Two extends sw.nn.Module {
  readonly left = new sw.nn.Parameter(Float32Array.of(0), []);
  readonly right = new sw.nn.Parameter(Float32Array.of(0), []);
  readonly list = new sw.nn.Parameter(Float32Array.of(1, 2, 3), [3], { requiresGrad: false });
  readonly seen = new sw.nn.BufferTensor(Float32Array.of(0), []);

  /** Shape: -> []. */
  forward(which: 'left' | 'right'): sw.Tensor {
    return this[which].add(this.seen);
  }
}

/** Returns the length of an error's code. It is 10 for CHECKPOINT, and -1 for other errors. */
function codeLength(error: unknown): number {
  return sw.ShardwiseError.isInstance(error) ? error.code.length : -1;
}

async function trained(strategy: sw.Strategy<sw.nn.Module> = ddp()) {
  const model = new Two();
  const parallel = await parallelize(model, strategy);
  const optimizer = new sw.optim.SGD(model.parameters(), { lr: 1 });
  return { model, optimizer, forward: (which: 'left' | 'right') => parallel.forward(which) };
}

export async function main(context: RankContext): Promise<z.infer<typeof found>> {
  const { group } = await join(context, 'interpreter');
  const directory = z.string().parse(context.data);
  const values: z.infer<typeof found> = {};
  for (const [name, run] of Object.entries(traps)) {
    values[name] = Array.from(
      await (await run(context.rank + 1, { group, directory })).data(),
      Number,
    );
  }
  return values;
}
