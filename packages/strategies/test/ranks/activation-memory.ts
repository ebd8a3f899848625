import { cpu } from '@shardwise/backend-cpu';
import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import { fromData, LineMesh, optim, setRank } from '@shardwise/core';
import {
  gptTensorParallel,
  memory,
  parallelize,
  tensorParallel,
  vocabParallelCrossEntropy,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { GPT } from '../../../../examples/gpt/model.ts';

/**
 * The batch is so large that no activation fits into the memory of a gradient. An activation that did would not be
 * counted.
 */
export const sizes = { tokens: 16, batch: 32, channels: 32, heads: 4, vocabulary: 16 };

export const variants = {
  'tensor parallelism': { sequenceParallel: false, gatherAgain: false },
  'sequence parallelism': { sequenceParallel: true, gatherAgain: false },
  'sequence parallelism that gathers again': { sequenceParallel: true, gatherAgain: true },
} as const;

/** The bytes of a layer, by variant. */
export const layerBytes = z.record(z.string(), z.number());

/** Returns the bytes that a layer adds to peak memory, without its states. */
export async function main({
  rank,
  world,
}: RankContext<ThreadsWorld>): Promise<z.infer<typeof layerBytes>> {
  const group = joinThreadsWorld(world, rank);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  const found: Record<string, number> = {};
  for (const [name, options] of Object.entries(variants)) {
    const peak = async (layers: number): Promise<number> => {
      // Each measurement has its own allocator, so its high-water mark begins at zero.
      const device = await cpu({ memory: world.memory, ...region });
      setRank({ device, mesh: new LineMesh('tp', group) });
      return peakOf(layers, options);
    };
    const shallow = await peak(2);
    found[name] = (await peak(4)) / 2 - shallow / 2;
  }
  group.close();
  return found;
}

async function peakOf(
  layers: number,
  options: { readonly sequenceParallel: boolean; readonly gatherAgain: boolean },
): Promise<number> {
  const { tokens, batch, channels, heads, vocabulary } = sizes;
  const model = new GPT({
    vocabularySize: vocabulary,
    contextLength: tokens,
    layers,
    heads,
    channels,
  });
  const styles = gptTensorParallel({ heads, logits: 'parts', ...options });
  const parallel = await parallelize(model, tensorParallel(styles));
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const ids = (): Int32Array => Int32Array.from({ length: batch * tokens }, (_, i) => i % 7);
  for (let step = 0; step < 2; step++) {
    const x = fromData(ids(), [batch, tokens], 'i32');
    const targets = fromData(ids(), [batch, tokens], 'i32');
    optimizer.zeroGrad();
    const loss = vocabParallelCrossEntropy(parallel.forward(x), targets);
    loss.backward();
    await optimizer.step();
    await loss.item();
  }
  const { parameterBytes, gradientBytes, optimizerBytes, peakBytes } = memory({ model, optimizer });
  return (peakBytes ?? NaN) - parameterBytes - gradientBytes - optimizerBytes;
}
