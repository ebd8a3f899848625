import type { CompositeOp, Shape } from '@shardwise/core/spec';
import { type NdArray, at } from '../../../interpreter/nd-array.ts';
import { attentionCases } from './attention.ts';
import { pagedAttentionCases, pagedAttentionExample } from './paged-attention.ts';
import { blockedCases, blockedExample } from './blocked.ts';
import { groupedCases } from './grouped.ts';
import { f32, uniform } from '../host-value.ts';
import {
  EPS,
  sigmoid,
  normalCdf,
  tanhCdf,
  softmax,
  logSoftmax,
  standardize,
  normalizeRms,
  mean,
  dot,
  type Row,
} from './formulas.ts';
import { label, type OpCase } from '../op-case.ts';
import { indices, type OpExample, varied } from '../op-example.ts';
import type { Operation } from '../program-builder.ts';

/** Allows for f32 arithmetic in the order of the decomposition, on values near 1. */
const TOLERANCE = { rtol: 1e-5, atol: 2e-6 };
const ELEMENTWISE_SHAPES: readonly Shape[] = [[], [1], [0], [7], [3, 1, 5], [2, 515]];
/** Rows with one element, with odd and long lengths, and a tensor without rows. */
const ROW_SHAPES: readonly Shape[] = [[7], [4, 1], [3, 8], [2, 5, 33], [0, 4], [3, 257]];
const inf = Infinity;

const matrix = varied([2, 3]);
const wide = varied([2, 3], [-3, 3]);
const cube = varied([2, 3, 4]);
const table = varied([2, 4]);
const vector = varied([4]);
/** The numbers of rows of each group, of 5 rows. The last row belongs to no group. */
const counts = indices([3], [1, 0, 3]);
const attending = { causal: false, hasKeyRanges: false, scale: 0.7, rounding: 'none' } as const;
const [queries, keys, attended, owed] = [
  varied([1, 2, 2, 2]),
  varied([1, 1, 3, 2]),
  varied([1, 1, 3, 1]),
  varied([1, 2, 2, 1]),
];
/** Numbers that these ops can also compute from the other inputs. */
const perQuery = { ...varied([1, 2, 2]), given: [0, 0, 0, 0] };
const operands = [queries, keys, attended, owed, perQuery, perQuery];
const ranges = indices([1, 2, 2], [0, 2, 0, 3]);
const ofGradient = [
  { params: { ...attending, causal: true }, inputs: operands },
  { params: { ...attending, hasKeyRanges: true }, inputs: [...operands, ranges] },
] as const;

/** What the contract knows about a composite. */
export interface CompositeContract<K extends CompositeOp> {
  readonly examples: readonly [OpExample<K>, ...OpExample<K>[]];
  /**
   * What the op computes. The formulas are computed in f64 and do not use the decomposition. They are made when they are
   * asked for, because this takes most of a second, and every rank of a test loads this package.
   */
  readonly cases: () => readonly OpCase[];
}

/** Examples and cases of every composite. */
export const composites: { readonly [K in CompositeOp]: CompositeContract<K> } = {
  sigmoid: {
    examples: [{ params: {}, inputs: [matrix] }],
    cases: () => [
      ...elementwise({ op: 'sigmoid', params: {} }, sigmoid),
      values({ op: 'sigmoid', params: {} }, [0, inf, -inf, 100, -100, NaN], [0.5, 1, 0, 1, 0, NaN]),
    ],
  },
  relu: {
    examples: [{ params: {}, inputs: [varied([2, 3], [-1.02, 1])] }],
    cases: () => [
      ...elementwise({ op: 'relu', params: {} }, (x) => Math.max(x, 0)),
      values({ op: 'relu', params: {} }, [0, -0, inf, -inf, -3, 3], [0, 0, inf, 0, 0, 3]),
    ],
  },
  silu: {
    examples: [{ params: {}, inputs: [wide] }],
    cases: () => [
      ...elementwise({ op: 'silu', params: {} }, (x) => x * sigmoid(x)),
      values({ op: 'silu', params: {} }, [0, inf, -100, NaN], [0, inf, 0, NaN]),
    ],
  },
  softplus: {
    examples: [{ params: {}, inputs: [wide] }],
    cases: () => [
      ...elementwise({ op: 'softplus', params: {} }, (x) => Math.log1p(Math.exp(x))),
      values({ op: 'softplus', params: {} }, [inf, -inf, 100, NaN], [inf, 0, 100, NaN]),
      {
        title: 'keeps the digits of small results',
        operation: { op: 'softplus', params: {} },
        inputs: [f32([4], [-4, -10, -20, -40])],
        expected: f32(
          [4],
          [-4, -10, -20, -40].map((x) => Math.log1p(Math.exp(x))),
        ),
        tolerance: { rtol: 1e-5, atol: 0 },
      },
    ],
  },
  logit: {
    examples: [
      { params: { eps: null }, inputs: [varied([2, 3], [0.05, 0.95])] },
      { params: { eps: 0.2 }, inputs: [varied([2, 3], [-0.5, 1.5])] },
    ],
    cases: () => [
      ...elementwise({ op: 'logit', params: { eps: 0.01 } }, (x) => {
        const inside = Math.min(Math.max(x, 0.01), 0.99);
        return Math.log(inside / (1 - inside));
      }),
      values(
        { op: 'logit', params: { eps: null } },
        [0, 1, 0.5, -1, 2, NaN],
        [-inf, inf, 0, NaN, NaN, NaN],
      ),
      values(
        { op: 'logit', params: { eps: 0.5 } },
        [0, 1, inf, -inf, NaN],
        [0, 0, 0, 0, NaN],
        'values beyond eps',
      ),
    ],
  },
  gelu: {
    examples: [
      { params: { approximate: 'none' }, inputs: [matrix] },
      { params: { approximate: 'tanh' }, inputs: [matrix] },
    ],
    cases: () => [
      ...elementwise({ op: 'gelu', params: { approximate: 'none' } }, (x) => x * normalCdf(x)),
      ...elementwise({ op: 'gelu', params: { approximate: 'tanh' } }, (x) => x * tanhCdf(x)),
    ],
  },
  geluGrad: {
    examples: [
      { params: { approximate: 'none' }, inputs: [matrix, matrix] },
      { params: { approximate: 'tanh' }, inputs: [matrix, matrix] },
    ],
    cases: () => [
      ...elementwiseGrad(
        { op: 'geluGrad', params: { approximate: 'none' } },
        (x) => x * normalCdf(x),
      ),
      ...elementwiseGrad(
        { op: 'geluGrad', params: { approximate: 'tanh' } },
        (x) => x * tanhCdf(x),
      ),
    ],
  },
  softmax: {
    examples: [{ params: {}, inputs: [matrix] }],
    cases: () => [
      ...rows({ op: 'softmax', params: {} }, 1, ([x]) => softmax(x)),
      rowValues('large values', 'softmax', [1000, 1000, -1000], [0.5, 0.5, 0]),
      rowValues('masked values', 'softmax', [0, -inf, 0, -inf], [0.5, 0, 0.5, 0]),
    ],
  },
  softmaxGrad: {
    examples: [{ params: {}, inputs: [matrix, matrix] }],
    cases: () =>
      rows(
        { op: 'softmaxGrad', params: {} },
        2,
        ([x, dy]) => {
          const y = softmax(x);
          return y.map((yi, i) => yi * (at(dy, i) - dot(y, dy)));
        },
        softmax,
      ),
  },
  logSoftmax: {
    examples: [{ params: {}, inputs: [matrix] }],
    cases: () => [
      ...rows({ op: 'logSoftmax', params: {} }, 1, ([x]) => logSoftmax(x)),
      rowValues('large values', 'logSoftmax', [1000, 1000], [-Math.LN2, -Math.LN2]),
      rowValues('masked values', 'logSoftmax', [0, -inf], [0, -inf]),
    ],
  },
  logSoftmaxGrad: {
    examples: [{ params: {}, inputs: [matrix, matrix] }],
    cases: () =>
      rows(
        { op: 'logSoftmaxGrad', params: {} },
        2,
        ([x, dy]) => {
          const total = dy.reduce((sum, d) => sum + d, 0);
          return logSoftmax(x).map((yi, i) => at(dy, i) - Math.exp(yi) * total);
        },
        logSoftmax,
      ),
  },
  layerNorm: {
    examples: [{ params: { eps: 1e-2 }, inputs: [cube, vector, vector] }],
    cases: () =>
      weighted({ op: 'layerNorm', params: { eps: EPS } }, 'bias', (x, w, b) => {
        const { normalized } = standardize(x);
        return normalized.map((n, i) => n * at(w, i) + at(b, i));
      }),
  },
  layerNormInputGrad: {
    examples: [{ params: { eps: 1e-2 }, inputs: [table, vector, table] }],
    cases: () =>
      weighted({ op: 'layerNormInputGrad', params: { eps: EPS } }, 'dy', (x, w, dy) => {
        const { normalized, inverse } = standardize(x);
        const g = dy.map((d, i) => d * at(w, i));
        return g.map(
          (gi, i) => inverse * (gi - mean(g) - at(normalized, i) * (dot(g, normalized) / g.length)),
        );
      }),
  },
  layerNormWeightGrad: {
    examples: [{ params: { eps: 1e-2 }, inputs: [table, table] }],
    cases: () =>
      weightGrads(
        { op: 'layerNormWeightGrad', params: { eps: EPS } },
        (x) => standardize(x).normalized,
      ),
  },
  rmsNorm: {
    examples: [{ params: { eps: 1e-2 }, inputs: [cube, vector] }],
    cases: () =>
      weighted({ op: 'rmsNorm', params: { eps: EPS } }, 'none', (x, w) =>
        normalizeRms(x).normalized.map((n, i) => n * at(w, i)),
      ),
  },
  rmsNormInputGrad: {
    examples: [{ params: { eps: 1e-2 }, inputs: [table, vector, table] }],
    cases: () =>
      weighted({ op: 'rmsNormInputGrad', params: { eps: EPS } }, 'dy', (x, w, dy) => {
        const { normalized, inverse } = normalizeRms(x);
        const g = dy.map((d, i) => d * at(w, i));
        return g.map(
          (gi, i) => inverse * (gi - at(normalized, i) * (dot(g, normalized) / g.length)),
        );
      }),
  },
  rmsNormWeightGrad: {
    examples: [{ params: { eps: 1e-2 }, inputs: [table, table] }],
    cases: () =>
      weightGrads(
        { op: 'rmsNormWeightGrad', params: { eps: EPS } },
        (x) => normalizeRms(x).normalized,
      ),
  },
  groupedMatmul: {
    examples: [
      { params: { transposeB: false }, inputs: [varied([5, 2]), varied([3, 2, 3]), counts] },
      { params: { transposeB: true }, inputs: [varied([5, 2]), varied([3, 3, 2]), counts] },
    ],
    cases: groupedCases.groupedMatmul,
  },
  groupedMatmulWeight: {
    examples: [{ params: {}, inputs: [varied([5, 2]), varied([5, 3]), counts] }],
    cases: groupedCases.groupedMatmulWeight,
  },
  attention: {
    examples: [
      { params: attending, inputs: [queries, keys, attended] },
      { params: { ...attending, causal: true }, inputs: [queries, keys, attended] },
      { params: attending, inputs: [queries, keys, attended, varied([1, 2, 1, 3])] },
      {
        params: { ...attending, hasKeyRanges: true },
        inputs: [queries, keys, attended, ranges],
      },
    ],
    cases: attentionCases.attention,
  },
  attentionLogSumExp: {
    examples: [
      { params: attending, inputs: [queries, keys] },
      {
        params: { ...attending, causal: true, hasKeyRanges: true },
        inputs: [queries, keys, ranges],
      },
    ],
    cases: attentionCases.attentionLogSumExp,
  },
  attentionQueryGrad: { examples: ofGradient, cases: attentionCases.attentionQueryGrad },
  attentionKeyGrad: { examples: ofGradient, cases: attentionCases.attentionKeyGrad },
  attentionValueGrad: { examples: ofGradient, cases: attentionCases.attentionValueGrad },
  pagedAttention: { examples: [pagedAttentionExample], cases: pagedAttentionCases },
  blockedLinear: { examples: [blockedExample], cases: blockedCases },
};

function titleOf({ op, params }: Operation, shape: Shape): string {
  const variant = op === 'gelu' || op === 'geluGrad' ? `${params.approximate}, ` : '';
  return `${variant}f32 ${label(shape)}`;
}

function elementwise(operation: Operation, f: (x: number) => number): OpCase[] {
  return ELEMENTWISE_SHAPES.map((shape) => {
    const x = uniform(shape, 1, -5, 5);
    const expected = f32(shape, Array.from(x.values, f));
    return {
      title: titleOf(operation, shape),
      operation,
      inputs: [x],
      expected,
      tolerance: TOLERANCE,
    };
  });
}

/** Makes cases of an elementwise gradient. The results are central differences of f in f64. Shape: x N, dy N -> N. */
function elementwiseGrad(operation: Operation, f: (x: number) => number): OpCase[] {
  const step = 2 ** -17;
  return ELEMENTWISE_SHAPES.map((shape) => {
    const [x, dy] = [uniform(shape, 1, -5, 5), uniform(shape, 2)];
    const slope = (xi: number): number => (f(xi + step) - f(xi - step)) / (2 * step);
    const expected = f32(
      shape,
      Array.from(x.values, (xi, i) => at(dy.values, i) * slope(xi)),
    );
    return {
      title: titleOf(operation, shape),
      operation,
      inputs: [x, dy],
      expected,
      tolerance: TOLERANCE,
    };
  });
}

function values(
  operation: Operation,
  inputs: Row,
  outputs: Row,
  title = 'zeros, infinities and large values',
): OpCase {
  const shape = [inputs.length];
  return {
    title,
    operation,
    inputs: [f32(shape, inputs)],
    expected: f32(shape, outputs),
    tolerance: TOLERANCE,
  };
}

function rowValues(title: string, op: 'softmax' | 'logSoftmax', inputs: Row, outputs: Row): OpCase {
  const shape = [1, inputs.length];
  return {
    title,
    operation: { op, params: {} },
    inputs: [f32(shape, inputs)],
    expected: f32(shape, outputs),
    tolerance: TOLERANCE,
  };
}

function rowsOf(x: NdArray): Row[] {
  const size = x.shape.at(-1) ?? 1;
  return Array.from({ length: x.values.length / size }, (_, i) => [
    ...x.values.subarray(i * size, (i + 1) * size),
  ]);
}

/**
 * Makes cases of an op that works row by row. `f` takes a row of x and a row of dy. If the op takes y instead of x,
 * `forward` computes y from x.
 */
function rows(
  operation: Operation,
  count: 1 | 2,
  f: (inputs: [x: Row, dy: Row]) => Row,
  forward: (x: Row) => Row = (x) => x,
): OpCase[] {
  return ROW_SHAPES.map((shape) => {
    const [x, dy] = [uniform(shape, 1, -5, 5), uniform(shape, 2)];
    const dyRows = rowsOf(dy);
    const expected = rowsOf(x).flatMap((row, i) => f([row, dyRows[i] ?? []]));
    const first = f32(shape, rowsOf(x).flatMap(forward));
    return {
      title: titleOf(operation, shape),
      operation,
      inputs: [first, dy].slice(0, count),
      expected: f32(shape, expected),
      tolerance: TOLERANCE,
    };
  });
}

/**
 * Makes cases of an op with a weight. Shape: x [.., D], weight [D], and bias [D] or dy [.., D] or nothing -> [.., D].
 */
function weighted(
  operation: Operation,
  third: 'bias' | 'dy' | 'none',
  f: (x: Row, weight: Row, third: Row) => Row,
): OpCase[] {
  return ROW_SHAPES.map((shape) => {
    const vector = shape.slice(-1);
    const [x, weight] = [uniform(shape, 1), uniform(vector, 2)];
    const extra = uniform(third === 'bias' ? vector : shape, 3);
    const extraRows = rowsOf(extra);
    const expected = rowsOf(x).flatMap((row, i) => {
      return f(row, [...weight.values], extraRows[third === 'bias' ? 0 : i] ?? []);
    });
    return {
      title: titleOf(operation, shape),
      operation,
      inputs: third === 'none' ? [x, weight] : [x, weight, extra],
      expected: f32(shape, expected),
      tolerance: TOLERANCE,
    };
  });
}

/** Makes cases of the gradient of a weight. Shape: x [.., D], dy [.., D] -> [D]. */
function weightGrads(operation: Operation, normalize: (x: Row) => Row): OpCase[] {
  return ROW_SHAPES.map((shape) => {
    const [x, dy] = [uniform(shape, 1), uniform(shape, 2)];
    const total = Array.from({ length: shape.at(-1) ?? 0 }, () => 0);
    const dyRows = rowsOf(dy);
    for (const [r, row] of rowsOf(x).entries()) {
      for (const [i, n] of normalize(row).entries()) {
        total[i] = at(total, i) + n * at(dyRows[r] ?? [], i);
      }
    }
    return {
      title: titleOf(operation, shape),
      operation,
      inputs: [x, dy],
      expected: f32(shape.slice(-1), total),
      tolerance: TOLERANCE,
    };
  });
}
