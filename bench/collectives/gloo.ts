import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import type { ContestantOrReason } from './job.ts';

const about = z.looseObject({ torch: z.string() });
const answer = z.object({ seconds: z.number().nullable() });

/** Starts torch.distributed over gloo in `size` processes of the interpreter that SHARDWISE_PEER_PYTHON names. */
export async function startGloo(size: number): Promise<ContestantOrReason> {
  const name = 'gloo';
  const python = process.env['SHARDWISE_PEER_PYTHON'];
  if (python === undefined || python === '') {
    const reason = 'SHARDWISE_PEER_PYTHON is not set to a Python interpreter that has PyTorch';
    return { name, reason };
  }
  const script = new URL('../peers/gloo_collectives.py', import.meta.url).pathname;
  const child = spawn(python, ['-B', script, String(size)], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, OMP_NUM_THREADS: '1', MKL_NUM_THREADS: '1' },
  });
  const exited = once(child, 'exit');
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done === true || value === undefined) throw new Error('gloo ended before it answered');
    return JSON.parse(value);
  };
  const { torch } = about.parse(await nextLine());
  return {
    contestant: {
      name,
      version: `torch ${torch}`,
      run: async (job) => {
        child.stdin.write(`${JSON.stringify(job)}\n`);
        return answer.parse(await nextLine()).seconds ?? undefined;
      },
      close: async () => {
        child.stdin.end();
        await exited;
      },
    },
  };
}
