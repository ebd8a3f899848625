import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { median } from '../summary.ts';
import type { ContestantOrReason, OperationName } from './job.ts';
import { AS_ROOT, findMpirun, MPIRUN_FLAGS } from './mpirun.ts';

const run = promisify(execFile);
const answer = z.object({ seconds: z.array(z.number().nonnegative()).min(1) });
const SOURCE = new URL('../peers/mpi-collectives.c', import.meta.url).pathname;

/** The operations of bench/peers/mpi-collectives.c. Its send measures something else than sendRecv. */
const known: ReadonlySet<OperationName> = new Set([
  'allReduce',
  'allGather',
  'reduceScatter',
  'allToAll',
  'broadcast',
  'reduce',
  'barrier',
]);

/**
 * Starts the same loop in C. bench/peers/mpi-collectives.c is compiled here, and the program is started for every
 * round.
 */
export async function startOpenMpi(size: number): Promise<ContestantOrReason> {
  const name = 'openMpi';
  const mpirun = await findMpirun();
  if ('reason' in mpirun) return { name, reason: mpirun.reason };
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-bench-'));
  const program = join(folder, 'mpi-collectives');
  try {
    await run('mpicc', ['-O3', '-o', program, SOURCE]);
  } catch (error) {
    await rm(folder, { recursive: true });
    return { name, reason: error instanceof Error ? error.message : String(error) };
  }
  const env = { ...process.env, ...AS_ROOT };
  return {
    contestant: {
      name,
      version: mpirun.version,
      roundsApart: 5,
      run: async ({ operation, bytes, iterations }) => {
        if (!known.has(operation)) return undefined;
        const options = ['--operation', operation, '--bytes', bytes, '--iterations', iterations];
        const args = ['-n', size, ...MPIRUN_FLAGS, program, ...options].map(String);
        const { stdout } = await run('mpirun', args, { env, maxBuffer: 64 << 20 });
        return median(answer.parse(JSON.parse(stdout)).seconds);
      },
      close: () => rm(folder, { recursive: true }),
    },
  };
}
