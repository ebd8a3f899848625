import { currentSession } from '@shardwise/core/extend';
import { flopsOf, matmulsOfStep } from './matmul-shapes.ts';
import { prepareMatmul } from './prepare-matmul.ts';
import type { Workload } from './workload.ts';

/**
 * Returns the milliseconds that the matmuls of a step take by themselves, which is a lower bound for a library with
 * this matmul. It takes the best of several runs of each matmul.
 */
export async function matmulLimitMs(
  of: Workload,
  runs = 15,
): Promise<{ readonly ms: number; readonly gigaflops: number }> {
  const device = currentSession().backend;
  let ms = 0;
  let flops = 0;
  for (const matmul of matmulsOfStep(of)) {
    const { run, free } = await prepareMatmul(device, matmul);
    ms += (await bestMs(run, runs)) * matmul.count;
    flops += flopsOf(matmul) * matmul.count;
    free();
  }
  return { ms, gigaflops: flops / ms / 1e6 };
}

export async function bestMs(run: () => Promise<void>, runs: number): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let index = 0; index < runs; index++) {
    const start = performance.now();
    await run();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}
