import { Generator } from './generator.ts';
import { generatorOfDraws } from './keys.ts';
import { elementCount } from '../base/shape.ts';
import { checkOptions, requireIntegers } from '../base/check-options.ts';
import type { Shape } from '../spec/dtype.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { requireList } from '../tensor/check-arguments.ts';
import { fromData } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';

// These functions return the numbers of PyTorch's random streams, bit for bit. They draw them on the host when they are
// called. Ranks with the same seed get the same numbers, except in forward passes of parallel models: there, ranks with
// different parts of the batch get different numbers, which are not those of PyTorch for the seed.

/** Options of the functions that draw random numbers, such as `randn`. */
export interface RandomOptions {
  /**
   * The source of the numbers. Default: the generator of the rank, which manualSeed() starts. In the forward pass of a
   * parallel model whose ranks divide the batch, it is another one for each part of the batch.
   */
  readonly generator?: Generator;
}

const randomRules: OptionRules<RandomOptions> = { generator: option.instanceOf(Generator) };

/** Random f32 in [0, 1). Shape: -> shape. */
export function rand(shape: Shape, options: RandomOptions = {}): Tensor {
  return fromData(generatorOf('rand', shape, options).rand(elementCount(shape)), shape, 'f32');
}

/** Random f32 with mean 0 and standard deviation 1. Shape: -> shape. */
export function randn(shape: Shape, options: RandomOptions = {}): Tensor {
  return fromData(generatorOf('randn', shape, options).randn(elementCount(shape)), shape, 'f32');
}

/** Random i32 in [low, high). Throws ConfigError if there is no such number. Shape: -> shape. */
export function randint(
  low: number,
  high: number,
  shape: Shape,
  options: RandomOptions = {},
): Tensor {
  const generator = generatorOf('randint', shape, options);
  return fromData(generator.randint(low, high, elementCount(shape)), shape, 'i32');
}

/** The i32 numbers 0 to length - 1 in random order. Shape: -> [length]. */
export function randperm(length: number, options: RandomOptions = {}): Tensor {
  requireIntegers('randperm', { length }, 0);
  const order = generatorOf('randperm', [], options).randperm(length);
  return fromData(Int32Array.from(order), [length], 'i32');
}

/** Does what rand does, with the shape of another tensor. Shape: like N -> f32 N. */
export function randLike(like: Tensor, options: RandomOptions = {}): Tensor {
  return rand(like.shape, options);
}

/** Does what randn does, with the shape of another tensor. Shape: like N -> f32 N. */
export function randnLike(like: Tensor, options: RandomOptions = {}): Tensor {
  return randn(like.shape, options);
}

function generatorOf(operation: string, shape: Shape, options: RandomOptions): Generator {
  requireList(operation, 'sizes', shape);
  checkOptions(operation, options, randomRules);
  return options.generator ?? generatorOfDraws();
}
