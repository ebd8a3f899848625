import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** More ranks than cores may be asked for, and none is to be bound to the core of another one. */
export const MPIRUN_FLAGS: readonly string[] = ['--oversubscribe', '--bind-to', 'none'];
/** Open MPI refuses root without these. */
export const AS_ROOT = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
} as const;

export type MpirunOrReason = { readonly version: string } | { readonly reason: string };

/** Whether mpirun is here, and Open MPI's. */
export async function findMpirun(): Promise<MpirunOrReason> {
  try {
    const { stdout } = await promisify(execFile)('mpirun', ['--version']);
    const version = stdout.split('\n', 1)[0] ?? '';
    return version.includes('Open MPI') ? { version } : { reason: `mpirun is ${version}` };
  } catch (error) {
    return { reason: error instanceof Error ? error.message : String(error) };
  }
}
