import {
  createSharedMemory,
  f32x4,
  FunctionBuilder,
  instantiateKernels,
  pageBytes,
  usize,
  v128,
} from '@shardwise/wasm-assembler';

const RUNS = 9;
const ITERATIONS = 2_000_000;
/**
 * The number of sums that do not wait for each other. With an operand they fit the 16 registers of processors with AVX.
 */
const SUMS = 12;
const LANES = 4;

/**
 * Measures GFLOP/s of WebAssembly's relaxed multiply-adds in registers alone. Returns undefined if the engine does not
 * have them.
 */
export function wasmPeak(): number | undefined {
  const fn = new FunctionBuilder(2);
  const [count, address] = [fn.parameter(0), fn.parameter(1)];
  const factor = fn.let(v128.load(address));
  const sums = Array.from({ length: SUMS }, () => fn.let(v128.load(address)));
  const index = fn.let(usize.const(0));
  fn.forSteps(index, 1, count, () => {
    for (const sum of sums) fn.set(sum, f32x4.relaxedMadd(sum, factor, factor));
  });
  for (const [place, sum] of sums.entries()) fn.do(v128.store(address, sum, 16 * place));
  try {
    const kernels = instantiateKernels(new Map([['peak', fn]]), createSharedMemory(pageBytes));
    const run = kernels.get('peak');
    let fastestMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round < RUNS; round++) {
      const start = performance.now();
      run?.(ITERATIONS, 0);
      fastestMs = Math.min(fastestMs, performance.now() - start);
    }
    return (2 * LANES * SUMS * ITERATIONS) / fastestMs / 1e6;
  } catch (error) {
    if (error instanceof WebAssembly.CompileError) return undefined;
    throw error;
  }
}
