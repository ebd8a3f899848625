import { ConfigError, ShapeError } from '../spec/errors.ts';
import type { Shape } from '../spec/dtype.ts';
import type { Generator } from './generator.ts';
import { checkOptions, requireIntegers } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

// Initial values of parameters. They equal those of torch.nn.init and of reset_parameters in torch.nn, value for value.
// All functions return float32 values of `shape`, row-major. O are out features and I are in features.

/** The fan that scales the values. `fanIn` keeps the variance in the forward pass, `fanOut` in the backward pass. */
export type FanMode = 'fanIn' | 'fanOut';

/** Nonlinearities with a known gain. */
export type Nonlinearity = 'linear' | 'sigmoid' | 'tanh' | 'relu' | 'leakyRelu' | 'selu';

/** Options of `kaimingNormal` and `kaimingUniform`. */
export interface KaimingOptions {
  /** The negative slope of the leaky ReLU that follows. Default: 0. Linear layers use sqrt(5). */
  readonly a?: number;
  readonly mode?: FanMode;
  readonly nonlinearity?: Nonlinearity;
}

const nonlinearityRule = option.oneOf('linear', 'sigmoid', 'tanh', 'relu', 'leakyRelu', 'selu');
const kaimingRules: OptionRules<KaimingOptions> = {
  a: option.number,
  mode: option.oneOf('fanIn', 'fanOut'),
  nonlinearity: nonlinearityRule,
};

const gainRules: OptionRules<{ nonlinearity: Nonlinearity; slope: number }> = {
  nonlinearity: option.required(nonlinearityRule),
  slope: option.required(option.number),
};
const xavierRules: OptionRules<{ gain: number }> = { gain: option.required(option.number) };
const valueRules: OptionRules<{ value: number }> = { value: option.required(option.number) };

/** The parameters of a truncated normal distribution. */
export interface TruncNormalOptions {
  /** The mean of the distribution before it is truncated. Default: 0. */
  readonly mean?: number;
  /** The standard deviation of the distribution before it is truncated. Default: 1. */
  readonly std?: number;
  /** The smallest value. Default: -2. */
  readonly low?: number;
  /** The largest value. Default: 2. */
  readonly high?: number;
}

const truncNormalRules: OptionRules<TruncNormalOptions> = {
  mean: option.number,
  std: option.nonNegative,
  low: option.number,
  high: option.number,
};

/** The weight and the bias of a layer, drawn in this order. */
export interface LayerInit {
  readonly weight: Float32Array<ArrayBuffer>;
  readonly bias: Float32Array<ArrayBuffer> | undefined;
}

const gains = {
  linear: () => 1,
  sigmoid: () => 1,
  tanh: () => 5 / 3,
  relu: () => Math.sqrt(2),
  leakyRelu: (slope) => Math.sqrt(2 / (1 + slope ** 2)),
  selu: () => 3 / 4,
} satisfies Record<Nonlinearity, (slope: number) => number>;

/** The factor that keeps the variance through a nonlinearity. `slope` is the negative slope of leakyRelu. */
export function calculateGain(nonlinearity: Nonlinearity, slope = 0.01): number {
  checkOptions('calculateGain', { nonlinearity, slope }, gainRules);
  return gains[nonlinearity](slope);
}

/**
 * The number of inputs that an output sums, and the number of outputs that an input reaches. Shape: [O, I,
 * ...kernel].
 */
export function calculateFans(shape: Shape): { fanIn: number; fanOut: number } {
  const [out, input, ...kernel] = shape;
  if (out === undefined || input === undefined) {
    throw new ShapeError(
      {
        asked: 'fan in and fan out of a weight',
        found: `shape [${shape.join(', ')}]`,
        todo: 'Use a weight of at least 2 dims, [out, in, ...kernel]',
      },
      { shape },
    );
  }
  elementsOf(shape);
  const window = elementsOf(kernel);
  return { fanIn: input * window, fanOut: out * window };
}

/** Shape: shape N -> N elements of 0. */
export function zeros(shape: Shape): Float32Array<ArrayBuffer> {
  return new Float32Array(elementsOf(shape));
}

/** Shape: shape N -> N elements of 1. */
export function ones(shape: Shape): Float32Array<ArrayBuffer> {
  return zeros(shape).fill(1);
}

/** Shape: shape N -> N elements of `value`. */
export function constant(shape: Shape, value: number): Float32Array<ArrayBuffer> {
  checkOptions('constant', { value }, valueRules);
  return zeros(shape).fill(value);
}

/** Uniform values in [from, to). Shape: shape N -> N elements. */
export function uniform(
  generator: Generator,
  shape: Shape,
  from = 0,
  to = 1,
): Float32Array<ArrayBuffer> {
  return generator.uniform(elementsOf(shape), from, to);
}

/** Normal values with this mean and standard deviation. Shape: shape N -> N elements. */
export function normal(
  generator: Generator,
  shape: Shape,
  mean = 0,
  std = 1,
): Float32Array<ArrayBuffer> {
  return generator.normal(elementsOf(shape), mean, std);
}

/**
 * Normal values within [low, high]. Values outside are drawn again. Throws ConfigError if less than 30 % of the
 * distribution is inside, because PyTorch then uses another algorithm.
 */
export function truncNormal(
  generator: Generator,
  shape: Shape,
  options: TruncNormalOptions = {},
): Float32Array<ArrayBuffer> {
  checkOptions('truncNormal', options, truncNormalRules);
  const { mean = 0, std = 1, low = -2, high = 2 } = options;
  const inside = normalCdf((high - mean) / std) - normalCdf((low - mean) / std);
  if (!(inside > 0.3)) {
    throw new ConfigError(
      {
        asked: `normal values of mean ${mean} and standard deviation ${std} in [${low}, ${high}]`,
        found: `${(100 * inside).toFixed(1)} % of the distribution inside`,
        todo: 'Widen the interval to more than 30 %',
      },
      { mean, std, low, high },
    );
  }
  const lowest = Math.fround(low);
  const highest = Math.fround(high);
  const outside = (value: number): boolean => value < lowest || value > highest;
  const values = normal(generator, shape, mean, std);
  while (values.some(outside)) {
    const fresh = normal(generator, shape, mean, std);
    values.forEach((value, i) => {
      if (outside(value)) values[i] = fresh[i] ?? 0;
    });
  }
  return values;
}

/** Uniform values (He et al. 2015). Shape: [O, I, ...kernel]. */
export function kaimingUniform(
  generator: Generator,
  shape: Shape,
  options: KaimingOptions = {},
): Float32Array<ArrayBuffer> {
  const bound = Math.sqrt(3) * kaimingStd(shape, options);
  return uniform(generator, shape, -bound, bound);
}

/** Normal values (He et al. 2015). Shape: [O, I, ...kernel]. */
export function kaimingNormal(
  generator: Generator,
  shape: Shape,
  options: KaimingOptions = {},
): Float32Array<ArrayBuffer> {
  return normal(generator, shape, 0, kaimingStd(shape, options));
}

/** Uniform values (Glorot and Bengio 2010). Shape: [O, I, ...kernel]. */
export function xavierUniform(
  generator: Generator,
  shape: Shape,
  gain = 1,
): Float32Array<ArrayBuffer> {
  const bound = Math.sqrt(3) * xavierStd(shape, gain);
  return uniform(generator, shape, -bound, bound);
}

/** Normal values (Glorot and Bengio 2010). Shape: [O, I, ...kernel]. */
export function xavierNormal(
  generator: Generator,
  shape: Shape,
  gain = 1,
): Float32Array<ArrayBuffer> {
  return normal(generator, shape, 0, xavierStd(shape, gain));
}

/** The initial values of `nn.Linear`. Shape: weight [O, I], bias [O]. */
export function linear(
  generator: Generator,
  inFeatures: number,
  outFeatures: number,
  hasBias = true,
): LayerInit {
  return weightAndBias(generator, [outFeatures, inFeatures], hasBias ? outFeatures : null);
}

/**
 * The initial values of a convolution with this number of biases. Null means no bias.
 * Shape: weight [O, I / groups, ...window], or [I, O / groups, ...window] for a transposed one, bias [O].
 */
export function convolution(
  generator: Generator,
  weightShape: Shape,
  biases: number | null,
): LayerInit {
  return weightAndBias(generator, weightShape, biases);
}

/** The initial values of `nn.Embedding`: standard normal, and zeros in row `paddingIdx`. Shape: [V, C]. */
export function embedding(
  generator: Generator,
  numEmbeddings: number,
  embeddingDim: number,
  paddingIdx?: number,
): Float32Array<ArrayBuffer> {
  const weight = normal(generator, [numEmbeddings, embeddingDim]);
  if (paddingIdx === undefined) return weight;
  requireIntegers('initial values of an embedding', { paddingIdx }, 0, numEmbeddings - 1);
  return weight.fill(0, paddingIdx * embeddingDim, (paddingIdx + 1) * embeddingDim);
}

/** The values of a weight, and of a bias unless `biases` is null. */
function weightAndBias(generator: Generator, shape: Shape, biases: number | null): LayerInit {
  const weight = kaimingUniform(generator, shape, { a: Math.sqrt(5) });
  if (biases === null) return { weight, bias: undefined };
  const { fanIn } = calculateFans(shape);
  const bound = fanIn > 0 ? 1 / Math.sqrt(fanIn) : 0;
  return { weight, bias: uniform(generator, [biases], -bound, bound) };
}

function kaimingStd(shape: Shape, options: KaimingOptions): number {
  checkOptions('Kaiming initial values', options, kaimingRules);
  const { a = 0, mode = 'fanIn', nonlinearity = 'leakyRelu' } = options;
  // A weight without elements draws no values, whatever its standard deviation. Its fans may be 0.
  if (elementsOf(shape) === 0) return 0;
  return calculateGain(nonlinearity, a) / Math.sqrt(calculateFans(shape)[mode]);
}

function xavierStd(shape: Shape, gain: number): number {
  checkOptions('Xavier values', { gain }, xavierRules);
  if (elementsOf(shape) === 0) return 0;
  const { fanIn, fanOut } = calculateFans(shape);
  return gain * Math.sqrt(2 / (fanIn + fanOut));
}

/**
 * The normal distribution function to within 1e-7 (Abramowitz and Stegun 7.1.26), which suffices to choose an
 * algorithm.
 */
function normalCdf(x: number): number {
  const z = Math.abs(x) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * z);
  const polynomial =
    ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  const tail = (polynomial * Math.exp(-z * z)) / 2;
  return x > 0 ? 1 - tail : tail;
}

function elementsOf(shape: Shape): number {
  let elements = 1;
  for (const dim of shape) {
    if (!Number.isSafeInteger(dim) || dim < 0) {
      throw new ShapeError(
        {
          asked: 'initial values of a parameter',
          found: `shape [${shape.join(', ')}]`,
          todo: 'Make every dim an integer of at least 0',
        },
        { shape },
      );
    }
    elements *= dim;
  }
  return elements;
}
