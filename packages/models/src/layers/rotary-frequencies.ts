import type { RopeParameters } from './rope-parameters.ts';

/** The frequencies of rotary embeddings, and the factor of their sines and cosines. */
export interface RotaryFrequencies {
  /** The angle by which each pair of dims turns from one token to the next. Shape: [D / 2]. */
  readonly frequencies: Float32Array<ArrayBuffer>;
  readonly attentionFactor: number;
}

/**
 * Computes the frequencies of a head of `width` dims, with the roundings of transformers, which computes them in
 * float32. `dynamic` gives those of rows up to `maxPositionEmbeddings`, which are not scaled.
 */
export function rotaryFrequencies(
  parameters: RopeParameters,
  width: number,
  maxPositionEmbeddings: number,
): RotaryFrequencies {
  const { ropeType, factor = 1 } = parameters;
  if (ropeType === 'yarn') return yarn(parameters, width, maxPositionEmbeddings);
  const plain = plainFrequencies(parameters.ropeTheta, width);
  const frequencies =
    ropeType === 'linear'
      ? plain.map((each) => each / factor)
      : ropeType === 'llama3'
        ? llama3(plain, parameters)
        : plain;
  return { frequencies, attentionFactor: 1 };
}

/** base^(-2i / D). Shape: -> [D / 2]. */
function plainFrequencies(base: number, width: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: width / 2 }, (_, i) => 1 / power(base, (2 * i) / width));
}

/** base^exponent with the roundings of float32. */
function power(base: number, exponent: number): number {
  return Math.fround(base ** Math.fround(exponent));
}

/** Low frequencies are divided by the factor, high ones are kept, and those between are mixed (Llama 3.1). */
function llama3(
  plain: Float32Array<ArrayBuffer>,
  { factor = 1, lowFreqFactor = 1, highFreqFactor = 4, ...rest }: RopeParameters,
): Float32Array<ArrayBuffer> {
  const length = rest.originalMaxPositionEmbeddings ?? 8192;
  return plain.map((frequency) => {
    const wavelength = (2 * Math.PI) / frequency;
    if (wavelength < length / highFreqFactor) return frequency;
    if (wavelength > length / lowFreqFactor) return frequency / factor;
    const share = (length / wavelength - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return ((1 - share) * frequency) / factor + share * frequency;
  });
}

/** A ramp over the dims from frequencies that are kept to frequencies that are divided (Peng et al. 2023). */
function yarn(
  parameters: RopeParameters,
  width: number,
  maxPositionEmbeddings: number,
): RotaryFrequencies {
  const { ropeTheta: base, betaFast = 32, betaSlow = 1, truncate = true } = parameters;
  const length = parameters.originalMaxPositionEmbeddings ?? maxPositionEmbeddings;
  const factor = parameters.factor ?? maxPositionEmbeddings / length;
  // The dim that turns so often in a row of pre-training.
  const dimOf = (turns: number): number =>
    (width * Math.log(length / (turns * 2 * Math.PI))) / (2 * Math.log(base));
  const [first, last] = [dimOf(betaFast), dimOf(betaSlow)];
  const low = Math.max(truncate ? Math.floor(first) : first, 0);
  const high = Math.min(truncate ? Math.ceil(last) : last, width - 1);
  const span = high === low ? 0.001 : high - low;
  const frequencies = Float32Array.from({ length: width / 2 }, (_, i) => {
    const period = power(base, (2 * i) / width);
    const divided = Math.min(1, Math.max(0, (i - low) / span));
    return divided / (factor * period) + (1 - divided) / period;
  });
  return { frequencies, attentionFactor: yarnAttentionFactor(parameters, factor) };
}

function yarnAttentionFactor(
  { attentionFactor, mscale, mscaleAllDim }: RopeParameters,
  factor: number,
): number {
  if (attentionFactor !== undefined) return attentionFactor;
  const scaleOf = (weight: number): number =>
    factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1;
  if (mscale === undefined || mscaleAllDim === undefined) return scaleOf(1);
  return scaleOf(mscale) / scaleOf(mscaleAllDim);
}
