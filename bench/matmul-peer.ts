import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { Matmul } from './matmul-shapes.ts';

const about = z.looseObject({ torch: z.string(), blas: z.string(), threads: z.number() });
const answer = z.object({ ms: z.number().positive() });

/** PyTorch's products, in a separate process that computes only when it is asked to. */
export interface MatmulPeer {
  readonly about: z.infer<typeof about>;
  /** Returns the best time of `runs` runs. */
  bestMs(matmul: Matmul, dtype: 'f32' | 'bf16', runs: number): Promise<number>;
  close(): Promise<void>;
}

/** Starts the peer. Returns undefined if SHARDWISE_PEER_PYTHON names no interpreter. */
export async function startMatmulPeer(): Promise<MatmulPeer | undefined> {
  const python = process.env['SHARDWISE_PEER_PYTHON'];
  if (python === undefined || python === '') return undefined;
  const path = new URL('./peers/matmul.py', import.meta.url).pathname;
  const child = spawn(python, ['-B', path], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, OMP_NUM_THREADS: '1', MKL_NUM_THREADS: '1' },
  });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done === true || value === undefined) throw new Error('The peer ended before it answered');
    return JSON.parse(value);
  };
  return {
    about: about.parse(await nextLine()),
    bestMs: async ({ a, b, transposeA, transposeB }, dtype, runs) => {
      child.stdin.write(`${JSON.stringify({ a, b, transposeA, transposeB, dtype, runs })}\n`);
      return answer.parse(await nextLine()).ms;
    },
    close: async () => {
      child.stdin.end();
      await exited;
    },
  };
}
