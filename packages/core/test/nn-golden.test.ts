import { createHash } from 'node:crypto';
import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import * as nn from '../src/nn.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { golden, waves, weightedSum, worstDifference } from './golden/library.ts';

const devices = [
  ['the CPU', () => cpu()],
  ['the interpreter', () => Promise.resolve(interpreter())],
] as const;

const seed = 7;
const noDropout = { dimFeedforward: 12, dropout: 0 } as const;
const normFirst = {
  ...noDropout,
  activation: 'gelu',
  layerNormEps: 1e-3,
  normFirst: true,
} as const;
const manyLayers = { numLayers: 2, batchFirst: true, bidirectional: true } as const;

/** Returns the mask of tools/library/modules.py. True means that a position may be seen. */
function seen(rows: number, columns: number): Tensor {
  const values = Uint8Array.from({ length: rows * columns }, (_, i) =>
    (Math.floor(i / columns) * 3 + (i % columns) * 2) % 5 < 3 ? 1 : 0,
  );
  return fromData(values, [rows, columns], 'bool');
}

/** A module, and the function that computes its outputs. */
type Case = () => readonly [nn.Module, (...inputs: Tensor[]) => readonly Tensor[]];

function layer(make: () => nn.Layer): Case {
  return () => {
    const module = make();
    return [module, (x) => (x === undefined ? [] : [module.forward(x)])];
  };
}

const modules: Readonly<Record<string, Case>> = {
  Conv1d: layer(() => new nn.Conv1d(4, 6, 3)),
  'Conv1d with groups': layer(
    () => new nn.Conv1d(4, 6, 3, { stride: 2, padding: 2, dilation: 3, groups: 2, bias: false }),
  ),
  'Conv2d with groups and dilation': layer(
    () => new nn.Conv2d(4, 6, [3, 2], { stride: 2, padding: [1, 2], dilation: [2, 3], groups: 2 }),
  ),
  Conv3d: layer(() => new nn.Conv3d(2, 3, 2)),
  'Conv3d with groups': layer(
    () =>
      new nn.Conv3d(4, 2, [2, 3, 2], {
        stride: [2, 1, 2],
        padding: [1, 0, 1],
        dilation: [2, 1, 1],
        groups: 2,
      }),
  ),
  ConvTranspose2d: layer(() => new nn.ConvTranspose2d(3, 2, 3)),
  'ConvTranspose2d with groups': layer(
    () =>
      new nn.ConvTranspose2d(4, 6, [3, 2], {
        stride: [2, 3],
        padding: [1, 0],
        outputPadding: [1, 2],
        groups: 2,
        dilation: [2, 1],
      }),
  ),
  'ConvTranspose2d with more than its stride': layer(
    () =>
      new nn.ConvTranspose2d(2, 3, 2, { padding: [1, 0], outputPadding: [1, 2], dilation: [2, 3] }),
  ),
  'BatchNorm1d of rows': layer(() => new nn.BatchNorm1d(3)),
  'BatchNorm1d of sequences': () => {
    const norm = new nn.BatchNorm1d(3, { momentum: null });
    return [norm, (x) => (x === undefined ? [] : [norm.forward(norm.forward(x))])];
  },
  BatchNorm3d: layer(() => new nn.BatchNorm3d(2, { eps: 0.1, momentum: 0.3, affine: false })),
  'SyncBatchNorm on one rank': layer(() => new nn.SyncBatchNorm(2)),
  GroupNorm: layer(() => new nn.GroupNorm(2, 6)),
  'GroupNorm of rows': layer(() => new nn.GroupNorm(3, 6, { eps: 0.2, affine: false })),
  InstanceNorm1d: layer(() => new nn.InstanceNorm1d(3)),
  InstanceNorm2d: layer(() => new nn.InstanceNorm2d(3, { affine: true })),
  InstanceNorm3d: layer(() => new nn.InstanceNorm3d(2)),
  MaxPool1d: layer(() => new nn.MaxPool1d(3, { stride: 2, padding: 1, dilation: 2 })),
  AvgPool1d: layer(() => new nn.AvgPool1d(3, { stride: 2, padding: 1 })),
  AdaptiveAvgPool1d: layer(() => new nn.AdaptiveAvgPool1d(4)),
  'AdaptiveAvgPool2d to one': layer(() => new nn.AdaptiveAvgPool2d(1)),
  AdaptiveAvgPool2d: layer(() => new nn.AdaptiveAvgPool2d([3, null])),
  'AdaptiveAvgPool2d to more': layer(() => new nn.AdaptiveAvgPool2d([5, 4])),
  LSTM: () => lstm(new nn.LSTM(3, 4)),
  'LSTM with layers': () => lstm(new nn.LSTM(3, 4, manyLayers)),
  'LSTM without bias': () => lstm(new nn.LSTM(3, 2, { numLayers: 3, bias: false })),
  GRU: () => gru(new nn.GRU(3, 4)),
  'GRU with layers': () => gru(new nn.GRU(3, 4, manyLayers)),
  'GRU without bias': () => gru(new nn.GRU(2, 3, { bias: false })),
  TransformerEncoderLayer: layer(() => new nn.TransformerEncoderLayer(8, 2, noDropout)),
  'TransformerEncoderLayer, norm first': () => {
    const encoder = new nn.TransformerEncoderLayer(8, 4, normFirst);
    return [encoder, (x) => (x === undefined ? [] : [encoder.forward(x, { causal: true })])];
  },
  'TransformerEncoderLayer with a mask': () => {
    const encoder = new nn.TransformerEncoderLayer(8, 2, noDropout);
    const mask = seen(2, 5).reshape([2, 1, 1, 5]);
    return [encoder, (x) => (x === undefined ? [] : [encoder.forward(x, { mask })])];
  },
  TransformerDecoderLayer: () => decoder(noDropout, {}),
  'TransformerDecoderLayer, norm first': () =>
    decoder(normFirst, { causal: true, memoryMask: seen(5, 3) }),
};

function lstm(module: nn.LSTM): ReturnType<Case> {
  return [
    module,
    (x, hidden, cell) => {
      if (x === undefined) return [];
      const [output, state] = module.forward(
        x,
        hidden === undefined || cell === undefined ? undefined : [hidden, cell],
      );
      return [output, ...state];
    },
  ];
}

function gru(module: nn.GRU): ReturnType<Case> {
  return [module, (x, hidden) => (x === undefined ? [] : module.forward(x, hidden))];
}

function decoder(
  options: nn.TransformerLayerOptions,
  call: nn.TransformerDecoderCall,
): ReturnType<Case> {
  const module = new nn.TransformerDecoderLayer(8, 2, options);
  return [
    module,
    (x, memory) =>
      x === undefined || memory === undefined ? [] : [module.forward(x, memory, call)],
  ];
}

const { interpolate, pixelShuffle, pixelUnshuffle, unfold } = nn.functional;
const functions: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  pixelShuffle: (x) => pixelShuffle(x, 2),
  pixelUnshuffle: (x) => pixelUnshuffle(x, 3),
  unfold: (x) => unfold(x, [2, 3], { dilation: [2, 1], padding: [1, 0], stride: [1, 2] }),
  nearest: (x) => interpolate(x, { size: 7 }),
  'nearest by factors': (x) => interpolate(x, { scaleFactor: [2.6, 0.7] }),
  'nearest by factors to twice the size': (x) => interpolate(x, { scaleFactor: [2.1, 1.2] }),
  nearestExact: (x) => interpolate(x, { size: [7, 3, 4], mode: 'nearestExact' }),
  linear: (x) => interpolate(x, { size: 8, mode: 'linear' }),
  bilinear: (x) => interpolate(x, { size: [7, 3], mode: 'bilinear' }),
  'bilinear by factors': (x) => interpolate(x, { scaleFactor: 1.7, mode: 'bilinear' }),
  'bilinear by factors to the same size': (x) =>
    interpolate(x, { scaleFactor: [1.2, 0.7], mode: 'bilinear' }),
  'bilinear, aligned': (x) =>
    interpolate(x, { size: [1, 9], mode: 'bilinear', alignCorners: true }),
  trilinear: (x) => interpolate(x, { size: [4, 2, 6], mode: 'trilinear' }),
  bicubic: (x) => interpolate(x, { size: [8, 3], mode: 'bicubic' }),
  'bicubic, aligned': (x) => interpolate(x, { size: [3, 7], mode: 'bicubic', alignCorners: true }),
};

async function numbers(x: Tensor | null): Promise<number[]> {
  return x === null ? [] : Array.from(await x.data(), Number);
}

async function initialOf(module: nn.Module): Promise<Record<string, string>> {
  const entries = module.namedParameters().map(async ([name, parameter]) => {
    const data = await parameter.data();
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16);
    return [name, `[${parameter.shape.join(', ')}] ${hash}`] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

describe.each(devices)('on %s', (_, device) => {
  beforeAll(async () => setRank({ device: await device() }));

  describe('modules have PyTorch’s names, initial values, outputs and gradients', () => {
    test.each(golden.modules)('$module', async (expected) => {
      manualSeed(seed);
      const made = modules[expected.module]?.();
      if (made === undefined) throw new RangeError(expected.module);
      const [module, forward] = made;
      expect(await initialOf(module)).toEqual(expected.initial);
      const inputs = expected.shapes.map((shape, i) => waves(shape, 100 * i).requiresGrad_());
      const outputs = forward(...inputs);
      weightedSum(outputs).backward();
      const differences: Record<string, number> = {};
      const compare = async (name: string, found: Tensor | null, text = ''): Promise<void> => {
        const worst = worstDifference(await numbers(found), text, { rtol: 5e-5, atol: 2e-6 });
        if (worst >= 1) differences[name] = worst;
      };
      expect(outputs).toHaveLength(expected.outputs.length);
      for (const [i, output] of outputs.entries()) {
        await compare(`output ${i}`, output, expected.outputs[i]);
      }
      for (const [i, input] of inputs.entries()) {
        await compare(`gradient of input ${i}`, input.grad, expected.inputGradients[i]);
      }
      for (const [name, parameter] of module.namedParameters()) {
        await compare(`gradient of ${name}`, parameter.grad, expected.gradients[name]);
      }
      for (const [name, buffer] of module.namedBuffers()) {
        await compare(name, buffer, expected.buffers[name]);
      }
      expect(differences).toEqual({});
    });
  });

  describe('functions have PyTorch’s results and gradients', () => {
    test.each(golden.functions)('$function', async (expected) => {
      const x = waves(expected.shape).requiresGrad_();
      const y = functions[expected.function]?.(x);
      if (y === undefined) throw new RangeError(expected.function);
      weightedSum([y]).backward();
      expect(`[${y.shape.join(', ')}]`).toBe(expected.output);
      expect(worstDifference(await numbers(y), expected.values)).toBeLessThan(1);
      expect(worstDifference(await numbers(x.grad), expected.gradient)).toBeLessThan(1);
    });
  });
});
