import type { Mode } from './messages.ts';
import { workload } from './workload.ts';

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

/**
 * Returns the bytes of activations that a rank keeps of a layer, by the list of Korthikanti et al. 2022, section 4.1,
 * with s tokens, b sequences, h channels, a heads and t ranks. The paper counts 2 bytes per element and 1 byte per
 * element of a dropout mask. Here an element has 4 bytes, and examples/gpt has no dropout. In elements:
 *
 *     term                                 paper        here         over t ranks
 *     input of the first norm              sbh          sbh          whole; 1/t with sequence parallelism
 *     input of queries, keys, values       sbh          sbh          whole; 1/t where it is gathered again
 *     queries (scaled), keys, values       3 sbh        3 sbh        1/t
 *     softmax                              as²b         as²b (*)     1/t
 *     its dropout: mask and result         2 as²b       -
 *     input of the projection              sbh          sbh          1/t
 *     dropout mask                         sbh          -
 *     input of the second norm             sbh          sbh          whole; 1/t with sequence parallelism
 *     input of the first product           sbh          sbh          whole; 1/t where it is gathered again
 *     input of the GELU, and its result    8 sbh        8 sbh        1/t
 *     dropout mask                         sbh          -
 *
 * (*) If the device computes attention without the scores, backward instead reads the result of attention, sbh, and a
 * number for each query, asb.
 *
 * These are 16 sbh + as²b elements if the scores are kept. Without sequence parallelism, 4 sbh of them are whole. At the
 * paper's 2 bytes per element this is sbh (8 + 24/t + 2 as/ht) bytes, which is the paper's result without the terms of
 * dropout, 2 sbh and 3 as²b/t. With sequence parallelism it is sbh/t (32 + 2 as/h) bytes, and sbh/t (34 + 5 as/h) in the
 * paper.
 */
export function activationFormula(mode: Mode, t: number, keepsScores: boolean): number {
  const { sbh, asb, as2b } = sizes();
  const shared = 12 * sbh + (keepsScores ? as2b : sbh + asb);
  const elements = {
    alone: 4 * sbh + shared,
    tensor: 4 * sbh + shared / t,
    // What was gathered is kept whole.
    sequence: 2 * sbh + (2 * sbh + shared) / t,
    gathering: (4 * sbh + shared) / t,
  }[mode];
  return FLOAT_BYTES * elements;
}

/**
 * Returns the bytes of the paper's list for a layer with dropout, at 4 bytes per element and 1 byte per element of a
 * mask.
 */
export function paperFormula(mode: Mode, t: number): number {
  const { sbh, as2b } = sizes();
  const products = (48 * sbh + 9 * as2b) / t;
  return mode === 'tensor' || mode === 'alone' ? 18 * sbh + products : (18 * sbh) / t + products;
}

/**
 * Returns the bytes of a rank's parameters. Matrices, and biases of products of which a rank computes a part, are in t
 * parts.
 */
export function parameterFormula(layers: number, t: number): number {
  const { channels: h, context, vocabulary } = workload;
  const cut = layers * (12 * h * h + 7 * h) + 2 * vocabulary * h;
  // These are the biases of the projections back, two norms, the positions and the last norm.
  const whole = layers * 6 * h + context * h + 2 * h;
  return FLOAT_BYTES * (cut / t + whole);
}

/** Returns the sizes of activations in elements. */
function sizes(): { readonly sbh: number; readonly asb: number; readonly as2b: number } {
  const { context: s, memoryBatch: b, channels: h, heads: a } = workload;
  return { sbh: s * b * h, asb: a * s * b, as2b: a * s * s * b };
}
