import { fromData, nn, type Tensor } from 'shardwise';
import { buildModel } from './training.ts';
import { batchOf, largeWorkload } from './workload.ts';

const layers = 20;
const width = 1024;
const batch = 64;

export interface MemoryModel {
  readonly about: string;
  readonly build: () => nn.Module & { forward(x: Tensor): Tensor };
  /** Returns the loss of a step's batch on one rank. `forward` is the model's forward pass. */
  readonly loss: (forward: (x: Tensor) => Tensor, step: number, rank: number) => Tensor;
}

export const memoryModels = {
  stack: {
    about: `${layers} × Linear(${width}, ${width}), batch ${batch}`,
    build: () =>
      new nn.Sequential(...Array.from({ length: layers }, () => new nn.Linear(width, width))),
    loss: (forward, step, rank) => {
      const values = (phase: number): Tensor => {
        const wave = (_: unknown, index: number): number => Math.sin(index * 0.37 + step + phase);
        return fromData(Float32Array.from({ length: batch * width }, wave), [batch, width], 'f32');
      };
      return nn.functional.mseLoss(forward(values(rank)), values(rank + 0.5));
    },
  },
  gpt: {
    about: 'GPT of 25 million parameters, that of strategies',
    build: () => buildModel(largeWorkload),
    loss: (forward, step, rank) => {
      const { inputs, targets } = batchOf(step, rank);
      return nn.functional.crossEntropy(forward(inputs), targets);
    },
  },
} as const satisfies Record<string, MemoryModel>;

export type MemoryModelName = keyof typeof memoryModels;

export function isMemoryModel(name: string): name is MemoryModelName {
  return Object.hasOwn(memoryModels, name);
}
