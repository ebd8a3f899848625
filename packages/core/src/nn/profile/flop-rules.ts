import { elementCount } from '../../base/shape.ts';
import type { Node } from '../../graph/node.ts';
import type { Op } from '../../spec/op.ts';
import { ConvLayer } from '../convolution/conv-layer.ts';
import {
  ELU,
  GELU,
  LeakyReLU,
  LogSoftmax,
  Mish,
  ReLU,
  Sigmoid,
  SiLU,
  Softmax,
  Softplus,
  Tanh,
} from '../layers/activations.ts';
import { Dropout } from '../layers/dropout.ts';
import { Embedding } from '../layers/embedding.ts';
import { Linear } from '../layers/linear.ts';
import type { Module } from '../module/module.ts';
import { BatchNorm } from '../norm/batch-norm.ts';
import { GroupNorm } from '../norm/group-norm.ts';
import { LayerNorm } from '../norm/layer-norm.ts';
import { RMSNorm } from '../norm/rms-norm.ts';
import { AdaptiveAvgPool1d, AdaptiveAvgPool2d } from '../pooling/adaptive-avg-pool.ts';
import { AvgPool1d, MaxPool1d } from '../pooling/pool1d.ts';
import { AvgPool2d, MaxPool2d } from '../pooling/pool2d.ts';
import { flopsOf, isPool } from '../../graph/flops-of.ts';

/**
 * What counts as a floating-point operation.
 *
 * - `'deepspeed'`: what DeepSpeed's profiler counts. Two for each product of two elements; one for each element of a bias
 *   of a convolution, of relu, gelu, silu, softmax and the like, of the input of a pool (a layer or a function), and of a sum or product of
 *   tensors that the program writes; five for each element of a norm with weights, and four without. Biases of linear
 *   layers, embeddings, dropout, tanh and sigmoid count nothing.
 * - `'pytorch'`: what PyTorch's FlopCounterMode counts, which is products alone. Only in the gradient of the weight of a
 *   grouped convolution does it count more than this: products between groups, which nothing computes.
 */
export type FlopConvention = 'deepspeed' | 'pytorch';

/** The operations of a node: `flops` by the convention, and `products`, which are two for each multiply-add. */
export interface NodeFlops {
  readonly flops: number;
  readonly products: number;
}

/** For each op that is no product, the operations for each element of its result. Ops without a row count nothing. */
const perElement: Partial<Record<Op, number>> = {
  relu: 1,
  gelu: 1,
  silu: 1,
  softplus: 1,
  softmax: 1,
  logSoftmax: 1,
  layerNorm: 5,
  rmsNorm: 5,
};

/** Counts a node that no layer with a rule of its own has made. */
export function nodeFlops(node: Node, convention: FlopConvention, isOfForward: boolean): NodeFlops {
  const products = flopsOf(node);
  if (products > 0 || convention === 'pytorch') return { flops: products, products };
  return { flops: otherFlops(node, isOfForward), products };
}

function otherFlops(node: Node, isOfForward: boolean): number {
  const count = elementCount(node.shape);
  if (isPool(node)) return elementCount(node.inputs[0]?.shape ?? []);
  if (node.op === 'add' || node.op === 'mul') {
    // The library builds functions of sums and products, and DeepSpeed counts those functions as a whole.
    const isInFunction = isOfForward && node.isOfLibrary && !addsToConvolution(node);
    return isInFunction ? 0 : count;
  }
  return count * (perElement[node.op] ?? 0);
}

function addsToConvolution({ op, inputs }: Node): boolean {
  return op === 'add' && inputs.some((input) => input.op === 'conv2d' && !isPool(input));
}

/** The operations of a call of a layer beside its products. */
type LayerRule = (elements: { readonly input: number; readonly output: number }) => number;

/**
 * How DeepSpeed counts the layer as a whole, beside its products. Null if it counts what the layer calls. The numbers
 * of elements are those that this rank has.
 */
export function layerRule(module: Module): LayerRule | null {
  if (module instanceof ConvLayer) {
    return ({ output }) => (module.bias === null ? 0 : output);
  }
  if (module instanceof BatchNorm && !module.training) {
    return ({ input }) => input * (module.weight === null ? 1 : 2);
  }
  if (isNorm(module)) return ({ input }) => input * (module.weight === null ? 4 : 5);
  if (countsInputs.some((type) => module instanceof type)) return ({ input }) => input;
  if (countsNothing.some((type) => module instanceof type)) return () => 0;
  return null;
}

function isNorm(module: Module): module is BatchNorm | GroupNorm | LayerNorm | RMSNorm {
  return [BatchNorm, GroupNorm, LayerNorm, RMSNorm].some((type) => module instanceof type);
}

const countsInputs = [
  ReLU,
  GELU,
  SiLU,
  LeakyReLU,
  ELU,
  Softplus,
  Mish,
  Softmax,
  LogSoftmax,
  AvgPool1d,
  AvgPool2d,
  MaxPool1d,
  MaxPool2d,
  AdaptiveAvgPool1d,
  AdaptiveAvgPool2d,
] as const;

const countsNothing = [Linear, Embedding, Dropout, Tanh, Sigmoid] as const;
