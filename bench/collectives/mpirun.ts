import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** A benchmark may ask for more ranks than cores, and mpirun must not bind ranks to the core of another one. */
export const MPIRUN_FLAGS: readonly string[] = ['--oversubscribe', '--bind-to', 'none'];
/** Open MPI refuses to run as root without these variables. */
export const AS_ROOT = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
} as const;

export type MpirunOrReason = { readonly version: string } | { readonly reason: string };

/** Returns whether mpirun is installed and belongs to Open MPI. */
export async function findMpirun(): Promise<MpirunOrReason> {
  try {
    const { stdout } = await promisify(execFile)('mpirun', ['--version']);
    const version = stdout.split('\n', 1)[0] ?? '';
    return version.includes('Open MPI') ? { version } : { reason: `mpirun is ${version}` };
  } catch (error) {
    return { reason: error instanceof Error ? error.message : String(error) };
  }
}
