import { fromData, hostPages, manualSeed, optim, type Strategy } from '@shardwise/core';
import type { ModelDivision } from '@shardwise/core/spec';
import { LlamaForCausalLM } from '@shardwise/models';
import { compose, contextParallel, ddp, fsdp, parallelize } from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';

const [layers, width, length, ranks] = [6, 32, 256, 2];
const config = {
  vocabSize: 16,
  hiddenSize: width,
  intermediateSize: 2 * width,
  numHiddenLayers: layers,
  numAttentionHeads: 4,
  numKeyValueHeads: 2,
};

type Layers = (model: LlamaForCausalLM) => LlamaForCausalLM;

const ways: Readonly<Record<'kept' | 'made again' | 'made again from pages', Layers>> = {
  kept: (model) => model,
  'made again': (model) => model.gradientCheckpointingEnable(),
  'made again from pages': (model) => model.gradientCheckpointingEnable({ pages: hostPages() }),
};

const strategies: Readonly<Record<string, (() => Strategy) | null>> = {
  'on one rank': null,
  'by a ring': () => compose(contextParallel(), ddp({ axis: 'cp' })),
  'by collected keys with FSDP': () =>
    compose(contextParallel({ method: 'allGather' }), fsdp({ axis: 'cp' })),
  'by exchanged heads': () => compose(contextParallel({ method: 'ulysses' }), ddp({ axis: 'cp' })),
};

interface Trained {
  readonly losses: readonly number[];
  readonly peakBytes: number;
}

/** Trains a model whose activations are most of its memory. */
async function train(
  { device }: RankInThread,
  way: Layers,
  strategy: (() => Strategy) | null,
): Promise<Trained> {
  manualSeed(0);
  const model = way(new LlamaForCausalLM(config));
  const parallel = strategy === null ? model : await parallelize(model, strategy());
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1 });
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    const ids = Int32Array.from({ length }, (_, i) => (i * i + step) % config.vocabSize);
    const inputIds = fromData(ids, [1, length], 'i32');
    optimizer.zeroGrad();
    const loss = parallel.forward(inputIds, { labels: inputIds });
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return { losses, peakBytes: device.usage?.().peakBytes ?? NaN };
}

async function trainAll(strategy: (() => Strategy) | null): Promise<Record<string, Trained>> {
  const found: Record<string, Trained> = {};
  const size = strategy === null ? 1 : ranks;
  for (const [name, way] of Object.entries(ways)) {
    const [first] = await onRanks(size, (place) => train(place, way, strategy), {
      axes: [{ name: 'cp', size }],
      ...onCpu,
    });
    if (first !== undefined) found[name] = first;
  }
  return found;
}

/** The result of each layer, which a checkpoint keeps. */
const resultBytes = length * width * Float32Array.BYTES_PER_ELEMENT;

describe('layers that the backward pass computes again', () => {
  it.each(Object.keys(strategies))(
    'have the same losses and take less memory, and less with pages, %s',
    { timeout: 300_000 },
    async (name) => {
      const strategy = strategies[name] ?? null;
      const found = await trainAll(strategy);
      const { kept, 'made again': again, 'made again from pages': paged } = found;
      if (kept === undefined || again === undefined || paged === undefined) expect.fail(name);
      assertAllclose(again.losses, kept.losses, { rtol: 1e-5, atol: 1e-5 });
      assertAllclose(paged.losses, kept.losses, { rtol: 1e-5, atol: 1e-5 });
      const ownBytes = resultBytes / (strategy === null ? 1 : ranks);
      // Without checkpoints, a layer keeps at least its two norms, its queries and its perceptron.
      expect(again.peakBytes).toBeLessThan(kept.peakBytes - (layers - 2) * 4 * ownBytes);
      expect(paged.peakBytes).toBeLessThan(again.peakBytes - (layers - 4) * ownBytes);
    },
  );

  it('are those of a model that says what they are', () => {
    class Wordless extends LlamaForCausalLM {
      override division(): ModelDivision {
        return { stages: super.division().stages ?? [] };
      }
    }
    expect(() => new Wordless(config).gradientCheckpointingEnable()).toThrow(
      /does not say what its layers are.*nn\.checkpoint/,
    );
  });

  it('are kept again after gradientCheckpointingDisable', async () => {
    const place = { axes: [{ name: 'cp', size: 1 }], ...onCpu };
    const [kept] = await onRanks(1, (each) => train(each, ways.kept, null), place);
    const [again] = await onRanks(
      1,
      (each) =>
        train(
          each,
          (model) => model.gradientCheckpointingEnable().gradientCheckpointingDisable(),
          null,
        ),
      place,
    );
    expect(again).toEqual(kept);
  });
});
