import { cpu } from '@shardwise/backend-cpu';
import { fromData, nn, optim, type Strategy } from '@shardwise/core';
import { ddp, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';

const size = 4;
const width = 512;
const layers = 20;
const batch = 8;
/** Ψ of the papers for one layer, in bytes of f32. */
const layerBytes = (width * width + width) * Float32Array.BYTES_PER_ELEMENT;
const modelBytes = layers * layerBytes;
const activationBytes = (layers + 1) * batch * width * Float32Array.BYTES_PER_ELEMENT;

interface Case {
  readonly strategy: () => Strategy;
  /** The memory of parameters, gradients and two moments on one rank, in multiples of the model's size. */
  readonly states: number;
}

const cases: Readonly<Record<string, Case>> = {
  DDP: { strategy: () => ddp(), states: 4 },
  'ZeRO-1': {
    strategy: () => zero({ stage: 1, bucketBytes: layerBytes }),
    states: 2 + 2 / size,
  },
  'ZeRO-2': {
    strategy: () => zero({ stage: 2, bucketBytes: layerBytes }),
    states: 1 + 3 / size,
  },
  'ZeRO-3': { strategy: () => zero({ stage: 3 }), states: 4 / size },
  FSDP: { strategy: () => fsdp(), states: 4 / size },
  'FSDP bf16': {
    strategy: () => fsdp({ mixedPrecision: { parameterDtype: 'bf16' } }),
    states: 4 / size,
  },
};

it.each(Object.entries(cases))(
  `%s on ${size} ranks keeps the states of the papers, and never has more than 1.2 times its states, activations and one layer`,
  async (name, { strategy, states }) => {
    await onRanks(
      size,
      async ({ rank, device }) => {
        const model = new nn.Sequential(
          ...Array.from({ length: layers }, () => new nn.Linear(width, width)),
        );
        const parallel = await parallelize(model, strategy());
        const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
        for (let step = 0; step < 3; step++) {
          optimizer.zeroGrad();
          const values = new Float32Array(batch * width).fill(step + rank);
          const loss = parallel.forward(fromData(values, [batch, width], 'f32')).mean();
          loss.backward();
          await optimizer.step();
          await loss.item();
        }
        const { bytesInUse = NaN, peakBytes = NaN } = device.usage?.() ?? {};
        const statesBytes = states * modelBytes;
        expect(Math.abs(bytesInUse / statesBytes - 1)).toBeLessThan(0.01);
        expect(peakBytes / (statesBytes + activationBytes + layerBytes)).toBeLessThan(1.2);
        // ZeRO-2 never has even half of the gradients at once.
        if (name === 'ZeRO-2') {
          expect(peakBytes - (1 + 2 / size) * modelBytes).toBeLessThan(modelBytes / 2);
        }
      },
      { createDevice: () => cpu({ byteLength: 6 * modelBytes }) },
    );
  },
);
