import { currentSession } from '@shardwise/core/extend';
import type { Program } from '@shardwise/core/spec';
import type { Backend } from 'shardwise';
import type { Workload } from './workload.ts';

interface Matmul {
  readonly a: readonly number[];
  readonly b: readonly number[];
  readonly transposeA: boolean;
  readonly transposeB: boolean;
  /** How often a step runs it. */
  readonly count: number;
}

/** The three products of a layer y = x Wᵀ: forward, the input's gradient, the weight's. */
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

/** The two products of attention and the four of their gradients. */
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

function matmulsOfStep(of: Workload): Matmul[] {
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

function outputShape({ a, b, transposeA, transposeB }: Matmul): number[] {
  const rows = a.at(transposeA ? -1 : -2) ?? 0;
  const columns = b.at(transposeB ? -2 : -1) ?? 0;
  return [...a.slice(0, -2), rows, columns];
}

function floats(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** A call that runs one matmul on memory of its own. */
async function prepare(device: Backend, matmul: Matmul): Promise<() => Promise<void>> {
  const { a, b, transposeA, transposeB } = matmul;
  const shape = outputShape(matmul);
  const program: Program = {
    inputs: [
      { shape: a, dtype: 'f32' },
      { shape: b, dtype: 'f32' },
    ],
    instructions: [
      { op: 'matmul', params: { transposeA, transposeB }, inputs: [0, 1], shape, dtype: 'f32' },
    ],
    outputs: [2],
    updates: [],
  };
  const executable = await device.compile(program);
  const inputs = [a, b].map((of) => {
    const buffer = device.alloc(floats(of) * 4);
    const values = Float32Array.from(
      { length: floats(of) },
      (_, index) => ((index * 37) % 101) / 101 - 0.5,
    );
    device.write(buffer, new Uint8Array(values.buffer));
    return buffer;
  });
  const outputs = [device.alloc(floats(shape) * 4)];
  return () => executable.run(inputs, outputs);
}

/**
 * Milliseconds that the matmuls of a step take by themselves: what no library with this matmul can
 * go below. The best of several runs of each, as nothing should be better.
 */
export async function matmulLimitMs(
  of: Workload,
  runs = 15,
): Promise<{ readonly ms: number; readonly gigaflops: number }> {
  const device = currentSession().backend;
  let ms = 0;
  let flops = 0;
  for (const matmul of matmulsOfStep(of)) {
    const run = await prepare(device, matmul);
    let best = Number.POSITIVE_INFINITY;
    for (let index = 0; index < runs; index++) {
      const start = performance.now();
      await run();
      best = Math.min(best, performance.now() - start);
    }
    const inner = matmul.a.at(matmul.transposeA ? -2 : -1) ?? 0;
    ms += best * matmul.count;
    flops += 2 * floats(outputShape(matmul)) * inner * matmul.count;
  }
  return { ms, gigaflops: flops / ms / 1e6 };
}
