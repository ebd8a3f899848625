import { nn, ones, optim, setRank, type Strategy, type Tensor } from '@shardwise/core';
import {
  ddp,
  fsdp,
  memory,
  parallelize,
  planFor,
  planMemory,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';

/** Two matrices of the same size, whose rows are multiples of 64 bytes, and a buffer. */
class Net extends nn.Module {
  readonly first = new nn.Linear(64, 64, { bias: false });
  readonly second = new nn.Linear(64, 64, { bias: false });
  readonly offset = new nn.BufferTensor(new Float32Array(64), [64]);

  /** Shape: x [B, 64] -> []. */
  forward(x: Tensor): Tensor {
    return this.second.forward(this.first.forward(x.sub(this.offset)).tanh()).mean();
  }
}

/** The bytes of the parameters of one model in f32. */
const modelBytes = 2 * 64 * 64 * Float32Array.BYTES_PER_ELEMENT;
const bufferBytes = 64 * Float32Array.BYTES_PER_ELEMENT;

type MakeOptimizer = (model: Net) => Pick<optim.Optimizer, 'zeroGrad' | 'step' | 'stateOf'>;

const adam: MakeOptimizer = (model) => new optim.AdamW(model.parameters(), { lr: 0.1 });
const redundancyFree: MakeOptimizer = (model) =>
  new ZeroRedundancyOptimizer(model.parameters(), optim.AdamW, { lr: 0.1 });

/** The memory of parameters, gradients and Adam's moments on one rank, in multiples of the model's size. */
type Shares = readonly [parameters: number, gradients: number, optimizer: number];

const [bf16, f16] = ['bf16', 'f16'] as const;

const ofPlans: readonly (readonly [string, Strategy, Shares])[] = [
  ['DDP', ddp(), [1, 1, 2]],
  ['ZeRO-1', zero({ stage: 1 }), [1, 1, 1]],
  ['ZeRO-2', zero({ stage: 2 }), [1, 0.5, 1]],
  ['ZeRO-3', zero({ stage: 3 }), [0.5, 0.5, 1]],
  ['FSDP', fsdp(), [0.5, 0.5, 1]],
  // The optimizer also keeps an f32 copy of the parameters.
  [
    'ZeRO-1 in 16 bits',
    zero({ stage: 1, mixedPrecision: { parameterDtype: bf16 } }),
    [0.5, 0.5, 1.5],
  ],
  [
    'ZeRO-2 in 16 bits',
    zero({ stage: 2, mixedPrecision: { parameterDtype: bf16 } }),
    [0.5, 0.25, 1.5],
  ],
  [
    'ZeRO-3 in 16 bits',
    zero({ stage: 3, mixedPrecision: { parameterDtype: f16 } }),
    [0.25, 0.25, 1.5],
  ],
  [
    'FSDP in 16 bits, gradients in 32',
    fsdp({ mixedPrecision: { parameterDtype: bf16, reduceDtype: 'f32' } }),
    [0.25, 0.5, 1.5],
  ],
];

/** Trains on two ranks, and expects of memory() the shares and that they add up to what the allocator handed out. */
async function expectShares(
  strategy: Strategy,
  makeOptimizer: MakeOptimizer,
  [parameters, gradients, states]: Shares,
): Promise<void> {
  await onRanks(
    2,
    async () => {
      const model = new Net();
      const parallel = await parallelize(model, strategy);
      const optimizer = makeOptimizer(model);
      for (let step = 0; step < 2; step++) {
        optimizer.zeroGrad();
        const loss = parallel.forward(ones([4, 64]));
        loss.backward();
        await optimizer.step();
        await loss.item();
      }
      const use = memory({ model, optimizer });
      const gradientBytes = gradients * modelBytes;
      expect(use).toMatchObject({
        parameterBytes: parameters * modelBytes,
        gradientBytes,
        optimizerBytes: states * modelBytes,
        bufferBytes,
        hostBytes: 0,
      });
      const bytesInUse = use.bytesInUse ?? Number.NaN;
      const statesBytes = (parameters + gradients + states) * modelBytes + bufferBytes;
      expect(use.otherBytes).toBeGreaterThanOrEqual(0);
      expect(use.otherBytes).toBe(bytesInUse - statesBytes);
      expect(use.peakBytes).toBeGreaterThanOrEqual(bytesInUse);
      optimizer.zeroGrad();
      expect(memory({ model, optimizer })).toMatchObject({
        gradientBytes: 0,
        bytesInUse: bytesInUse - gradientBytes,
      });
    },
    onCpu,
  );
}

describe('memory() on two ranks', () => {
  it.each(ofPlans)(
    'tells parameters, gradients, optimizer states and buffers apart, which add up to what the allocator has handed out, with %s',
    (_, strategy, shares) => expectShares(strategy, adam, shares),
  );

  it('tells the states of a ZeroRedundancyOptimizer apart beside DDP', () =>
    expectShares(ddp(), redundancyFree, [1, 1, 1]));

  it.each(ofPlans)(
    'is what the plan says, with %s',
    async (_, strategy, [parameters, gradients, states]) => {
      await onRanks(2, () => {
        expect(planMemory(planFor(new Net(), strategy))).toMatchObject({
          parameterBytes: parameters * modelBytes,
          gradientBytes: gradients * modelBytes,
          optimizerBytes: states * modelBytes,
          bufferBytes,
        });
      });
    },
  );
});

describe('memory() of a device that does not count', () => {
  it('memory() of a device that does not count tells the states alone', () => {
    setRank({ device: interpreter() });
    const model = new nn.Linear(3, 2);
    expect(memory({ model })).toEqual({
      parameterBytes: 0,
      gradientBytes: 0,
      optimizerBytes: 0,
      bufferBytes: 0,
      // No computation has used the tensors yet, so they are still in host memory.
      hostBytes: (3 * 2 + 2) * Float32Array.BYTES_PER_ELEMENT,
      otherBytes: null,
      bytesInUse: null,
      peakBytes: null,
    });
  });
});
