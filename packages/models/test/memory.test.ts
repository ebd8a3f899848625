import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { fromData, LineMesh, optim, setRank } from '@shardwise/core';
import {
  BertForMaskedLM,
  LlamaForCausalLM,
  type PretrainedModel,
  RobertaForMaskedLM,
} from '@shardwise/models';
import { memory } from '@shardwise/strategies';
import { expect, test } from 'vitest';

const TOKENS = 512;
const CHANNELS = 16;
const TILE_BYTES = TOKENS * 8192 * 4;

const small = {
  hiddenSize: CHANNELS,
  intermediateSize: CHANNELS,
  numHiddenLayers: 1,
  numAttentionHeads: 2,
} as const;

/** The bytes of a training step at its peak beside those of the parameters, their gradients and their states. */
async function peakOf(
  build: (vocabSize: number) => PretrainedModel,
  vocabSize: number,
): Promise<number> {
  const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
  setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });
  const model = build(vocabSize);
  const optimizer = new optim.SGD(model.parameters(), { lr: 1e-3 });
  for (let step = 0; step < 2; step++) {
    const ids = fromData(
      Int32Array.from({ length: TOKENS }, (_, i) => (i * 7919) % vocabSize),
      [1, TOKENS],
      'i32',
    );
    optimizer.zeroGrad();
    const loss = model.forward(ids, { labels: ids });
    loss.backward();
    await optimizer.step();
    await loss.item();
  }
  const { peakBytes, parameterBytes, gradientBytes } = memory({ model, optimizer });
  group.close();
  return (peakBytes ?? NaN) - parameterBytes - gradientBytes;
}

test('A step with 128k words takes at most one tile of logits more than one with few words.', async () => {
  const vocabSize = 131072;
  const build = (words: number): PretrainedModel =>
    new LlamaForCausalLM({ ...small, vocabSize: words });
  const [few, many] = [await peakOf(build, 1024), await peakOf(build, vocabSize)];
  // Whole logits and their gradient would be 32 tiles.
  expect(many - few).toBeGreaterThan(TILE_BYTES / 2);
  expect(many - few).toBeLessThan(TILE_BYTES);
});

test.each([
  ['BERT', BertForMaskedLM],
  ['RoBERTa', RobertaForMaskedLM],
])(
  'A step of %s with 64k words takes at most two and a quarter tiles of logits more.',
  async (_, Model) => {
    const build = (vocabSize: number): PretrainedModel =>
      new Model({ ...small, vocabSize, maxPositionEmbeddings: TOKENS + 2 });
    const [few, many] = [await peakOf(build, 1024), await peakOf(build, 65536)];
    // Whole logits and their gradient would be 16 tiles. Three gradients of the tied weight are less than one.
    expect(many - few).toBeLessThan(2.25 * TILE_BYTES);
  },
);
