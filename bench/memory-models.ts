import { fromData, nn, type Tensor } from 'shardwise';
import { buildModel } from './training.ts';
import { batchOf, largeWorkload } from './workload.ts';

const layers = 20;
const width = 1024;

export interface MemoryModel {
  readonly about: string;
  readonly build: () => nn.Module & { forward(x: Tensor): Tensor };
  /** The rows of a rank's batch. */
  readonly rows: number;
  /** Returns the loss of a step's batch on one rank. `forward` is the model's forward pass. */
  readonly loss: (
    forward: (x: Tensor) => Tensor,
    batch: { readonly step: number; readonly rank: number; readonly rows: number },
  ) => Tensor;
}

export const memoryModels = {
  stack: {
    about: `${layers} × Linear(${width}, ${width}), batch 64`,
    rows: 64,
    build: () =>
      new nn.Sequential(...Array.from({ length: layers }, () => new nn.Linear(width, width))),
    loss: (forward, { step, rank, rows }) => {
      const values = (phase: number): Tensor => {
        const wave = (_: unknown, index: number): number => Math.sin(index * 0.37 + step + phase);
        return fromData(Float32Array.from({ length: rows * width }, wave), [rows, width], 'f32');
      };
      return nn.functional.mseLoss(forward(values(rank)), values(rank + 0.5));
    },
  },
  gpt: {
    about: 'GPT of 25 million parameters, that of strategies',
    build: () => buildModel(largeWorkload),
    rows: largeWorkload.batch,
    loss: (forward, { step, rank, rows }) => {
      const { inputs, targets } = batchOf(step, rank, rows);
      return nn.functional.crossEntropy(forward(inputs), targets);
    },
  },
} as const satisfies Record<string, MemoryModel>;

export type MemoryModelName = keyof typeof memoryModels;

export function isMemoryModel(name: string): name is MemoryModelName {
  return Object.hasOwn(memoryModels, name);
}
