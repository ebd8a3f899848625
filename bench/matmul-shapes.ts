import { largeWorkload, type Workload, workload } from './workload.ts';

export interface Matmul {
  readonly a: readonly number[];
  readonly b: readonly number[];
  readonly transposeA: boolean;
  readonly transposeB: boolean;
  /** The number of times that a step runs the product. */
  readonly count: number;
}

/**
 * Returns the three products of a layer y = x Wᵀ: forward, the gradient of the input, and the gradient of the weight.
 */
function linear(rows: number, inputs: number, outputs: number, count: number): Matmul[] {
  const [x, w, y] = [
    [rows, inputs],
    [outputs, inputs],
    [rows, outputs],
  ];
  return [
    { a: x, b: w, transposeA: false, transposeB: true, count },
    { a: y, b: w, transposeA: false, transposeB: false, count },
    { a: y, b: x, transposeA: true, transposeB: false, count },
  ];
}

/** Returns the two products of attention and the four of their gradients. */
function attention(batch: number, tokens: number, width: number, count: number): Matmul[] {
  const [heads, scores] = [
    [batch, tokens, width],
    [batch, tokens, tokens],
  ];
  return [
    { a: heads, b: heads, transposeA: false, transposeB: true, count: 2 * count },
    { a: scores, b: heads, transposeA: false, transposeB: false, count: 2 * count },
    { a: scores, b: heads, transposeA: true, transposeB: false, count: 2 * count },
  ];
}

type TransformerSizes = Pick<
  Workload,
  'layers' | 'width' | 'heads' | 'context' | 'batch' | 'vocabulary'
>;

/** Returns the products of a training step. */
export function matmulsOfStep(of: TransformerSizes): Matmul[] {
  const { layers, width, heads, context, batch, vocabulary } = of;
  const rows = batch * context;
  return [
    ...linear(rows, width, 3 * width, layers),
    ...linear(rows, width, width, layers),
    ...linear(rows, width, 4 * width, layers),
    ...linear(rows, 4 * width, width, layers),
    ...linear(rows, width, vocabulary, 1),
    ...attention(batch * heads, context, width / heads, layers),
  ];
}

/**
 * The sizes of BERT-base with 4 rows of 128 tokens. The product with its embedding is left out, because it is like the
 * others.
 */
const bert = {
  layers: 12,
  width: 768,
  heads: 12,
  context: 128,
  batch: 4,
  vocabulary: 768,
} as const;

const squares = [256, 512, 1024, 2048, 4096] as const;

export interface MatmulShape extends Matmul {
  readonly name: string;
}

/**
 * Returns products by the model that they belong to: `gpt`, `gpt-large`, `bert` and `square`. Equal products occur
 * once.
 */
export function matmulShapes(): MatmulShape[] {
  const models = { gpt: workload, 'gpt-large': largeWorkload, bert };
  const ofModels = Object.entries(models).flatMap(([name, sizes]) =>
    matmulsOfStep(sizes).map((matmul) => ({ name, ...matmul })),
  );
  const ofSquares = squares.map((size) => {
    const shape = [size, size];
    return { name: 'square', a: shape, b: shape, transposeA: false, transposeB: false, count: 1 };
  });
  const known = new Map<string, MatmulShape>();
  for (const shape of [...ofModels, ...ofSquares]) {
    const { a, b, transposeA, transposeB } = shape;
    const key = JSON.stringify([a, b, transposeA, transposeB]);
    if (!known.has(key)) known.set(key, shape);
  }
  return [...known.values()];
}

/**
 * Numbers of rows, columns and terms. They lie around the numbers from which on machine code computes a product of f32
 * with a large matrix.
 */
const fewSizes = [1, 2, 4, 7, 8, 12, 16, 23, 24, 31, 32, 48] as const;
const wide = 1024;

/** Returns products with few rows, columns or terms. The large matrix occurs untransposed and transposed. */
export function thinMatmulShapes(): Matmul[] {
  const both = [false, true];
  const large = [wide, wide];
  return fewSizes
    .flatMap((few) => [
      ...both.map((transposeB) => ({ a: [few, wide], b: large, transposeA: false, transposeB })),
      ...both.map((transposeA) => ({ a: large, b: [wide, few], transposeA, transposeB: false })),
      { a: [wide, few], b: [few, wide], transposeA: false, transposeB: false },
    ])
    .map((shape) => ({ ...shape, count: 1 }));
}

export function shapeText({ a, b, transposeA, transposeB }: Matmul): string {
  const text = (shape: readonly number[], transposed: boolean): string =>
    `${shape.join('x')}${transposed ? 'ᵀ' : ''}`;
  return `${text(a, transposeA)} · ${text(b, transposeB)}`;
}

export function outputShape({ a, b, transposeA, transposeB }: Matmul): number[] {
  const rows = a.at(transposeA ? -1 : -2) ?? 0;
  const columns = b.at(transposeB ? -2 : -1) ?? 0;
  return [...a.slice(0, -2), rows, columns];
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Returns the number of multiplications and additions. */
export function flopsOf(matmul: Matmul): number {
  const inner = matmul.a.at(matmul.transposeA ? -2 : -1) ?? 0;
  return 2 * elementCount(outputShape(matmul)) * inner;
}
