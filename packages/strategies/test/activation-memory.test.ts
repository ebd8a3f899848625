import { cpu } from '@shardwise/backend-cpu';
import { fromData, optim, type Tensor } from '@shardwise/core';
import {
  gptTensorParallel,
  memory,
  parallelize,
  tensorParallel,
  vocabParallelCrossEntropy,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { GPT } from '../../../examples/gpt/model.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';

const size = 2;
/**
 * The batch is so large that no activation fits into the memory of a gradient. An activation that did would not be
 * counted.
 */
const [tokens, batch, channels, heads, vocabularySize] = [16, 32, 32, 4, 16];

interface Variant {
  readonly sequenceParallel: boolean;
  readonly gatherAgain: boolean;
}

/** Trains a model of so many layers, and returns the peak memory of a rank without the states. */
async function peakOf(layers: number, variant: Variant): Promise<number> {
  const model = new GPT({ vocabularySize, contextLength: tokens, layers, heads, channels });
  const styles = gptTensorParallel({ heads, logits: 'parts', ...variant });
  const parallel = await parallelize(model, tensorParallel(styles));
  const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
  const ids = (): Tensor =>
    fromData(
      Int32Array.from({ length: batch * tokens }, (_, at) => at % 7),
      [batch, tokens],
      'i32',
    );
  for (let step = 0; step < 2; step++) {
    optimizer.zeroGrad();
    const loss = vocabParallelCrossEntropy(parallel.forward(ids()), ids());
    loss.backward();
    await optimizer.step();
    await loss.item();
  }
  const { parameterBytes, gradientBytes, optimizerBytes, peakBytes } = memory({ model, optimizer });
  return (peakBytes ?? Number.NaN) - parameterBytes - gradientBytes - optimizerBytes;
}

/** The elements of an activation of all channels, and of one number for each head and query. */
const sbh = tokens * batch * channels;
const asb = heads * tokens * batch;

/**
 * The elements of a layer's activations by the list of Korthikanti et al. 2022, without dropout: 16 sbh + as²b. The
 * inputs of the two norms and of the first two products, 4 sbh, are whole without sequence parallelism. With it, 2 sbh
 * of them are whole if the layer keeps what it gathers. On a device that computes attention without storing the scores,
 * backward reads the result, sbh, and one number for each query, asb, instead of as²b. On other devices, if backward
 * gathers something again, it also computes the scores again after that.
 */
async function elementsOf(wholeInputs: number, scores: number): Promise<number> {
  const makesScores = !(await cpu({ byteLength: 1 << 20 })).limits.native.has('attention');
  const attention = makesScores ? scores : sbh + asb;
  return wholeInputs * sbh + ((16 - wholeInputs) * sbh + attention) / size;
}

describe(`activations of a transformer layer on ${size} ranks`, () => {
  it.each([
    {
      name: 'tensor parallelism',
      variant: { sequenceParallel: false, gatherAgain: false },
      wholeInputs: 4,
      scores: tokens * asb,
    },
    {
      name: 'sequence parallelism',
      variant: { sequenceParallel: true, gatherAgain: false },
      wholeInputs: 2,
      scores: tokens * asb,
    },
    {
      name: 'sequence parallelism that gathers again',
      variant: { sequenceParallel: true, gatherAgain: true },
      wholeInputs: 0,
      scores: 0,
    },
  ])('take the memory of the paper, with $name', async ({ variant, wholeInputs, scores }) => {
    const expected = (await elementsOf(wholeInputs, scores)) * Float32Array.BYTES_PER_ELEMENT;
    const ofLayers = async (layers: number): Promise<readonly number[]> =>
      onRanks(size, () => peakOf(layers, variant), { axes: [{ name: 'tp', size }], ...onCpu });
    const [shallow, deep] = [await ofLayers(2), await ofLayers(4)];
    for (const [rank, bytes] of deep.entries()) {
      const layerBytes = (bytes - (shallow[rank] ?? Number.NaN)) / 2;
      expect(Math.abs(layerBytes / expected - 1), `${layerBytes}`).toBeLessThan(0.02);
    }
  });
});
