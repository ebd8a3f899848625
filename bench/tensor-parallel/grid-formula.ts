import { blockSizes, type GridCase, q, worldSizeOf } from './grids.ts';

const FLOAT_BYTES = Float32Array.BYTES_PER_ELEMENT;

/** The bytes of one layer on one rank. */
export interface GridFormula {
  readonly parameterBytes: number;
  readonly activationBytes: number;
  /** The bytes of its messages in a forward and a backward pass. */
  readonly messageBytes: number;
}

/**
 * The formulas for p = q² (2D), d q² (2.5D) or q³ (3D) ranks. Matrices are in p parts. The exception is the weights of
 * 2.5D, which each of the d layers of ranks has (Wang et al. 2021). Activations are those of one rank
 * (memory-formula.ts) divided by p, because what backward needs of other ranks is sent again.
 *
 * A product of x [bs, i] and W [i, o] by SUMMA sends q blocks of each, which is x/dq + W/q elements (Xu et al. 2021:
 * (7bsh + 12h²)/√p for the four products of a layer). Backward sends twice as much: W and dx, and x and dW. 2.5D sums
 * dW over its layers. 3D gathers or scatters x, W and y once in forward, (x + W + y)/q² (Bian et al. 2021), and dy, dx
 * and dW, and x and W again, in backward. Terms of the order of bs or h are left out (statistics of norms, gradients of
 * biases), except the 13h elements of a layer's biases and norms, which q ranks share out.
 */
export function gridFormula({ grid, axes }: GridCase, keepsScores: boolean): GridFormula {
  const { batch: b, context: s, channels: h, heads: a } = blockSizes;
  const p = worldSizeOf({ grid, axes });
  const d = grid === '2.5D' ? p / q ** 2 : 1;
  const weights = 12 * h * h;
  const attention = keepsScores ? a * s * s * b : b * s * h + a * s * b;
  const inputs = 7 * b * s * h;
  const outputs = 9 * b * s * h;
  const summa = 3 * (inputs / (d * q) + weights / q);
  const messages = {
    '2D': summa,
    '2.5D': summa + (d === 1 ? 0 : weights / q ** 2),
    '3D': (3 * inputs + 3 * weights + 2 * outputs) / q ** 2,
  }[grid];
  return {
    parameterBytes: FLOAT_BYTES * ((weights * d) / p + (13 * h) / q),
    activationBytes: (FLOAT_BYTES * (16 * b * s * h + attention)) / p,
    messageBytes: FLOAT_BYTES * messages,
  };
}
