import type { Mode } from './messages.ts';
import { workload } from './workload.ts';

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

/**
 * Bytes of activations that a rank keeps of a layer, by the list of Korthikanti et al. 2022, section
 * 4.1, with s tokens, b sequences, h channels, a heads and t ranks. They count 2 bytes an element and
 * 1 of a dropout mask; ours are 4 bytes, and examples/gpt has no dropout. In elements:
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
 * (*) Where the device makes attention without the scores, backward reads its result, sbh, and a number
 * for each query, asb, in its place.
 *
 * So 16 sbh + as²b elements where the scores are kept, of which 4 sbh are whole without sequence parallelism: in the paper's 2
 * bytes sbh (8 + 24/t + 2 as/ht), theirs less the terms of dropout, 2 sbh and 3 as²b/t bytes. With
 * sequence parallelism sbh/t (32 + 2 as/h), where theirs is sbh/t (34 + 5 as/h).
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
