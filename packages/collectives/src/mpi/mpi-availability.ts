import { loadMpiLibrary } from './mpi-library.ts';

export type MpiAvailability =
  | {
      readonly available: true;
      /** Name of the library that was loaded. */
      readonly library: string;
      /** `Open MPI v4.1.4, ...` */
      readonly version: string;
    }
  | { readonly available: false; readonly reason: string };

/**
 * Whether this process can load an MPI library; it does so, and stays with it. Whether a launcher of
 * MPI started the process, its environment tells.
 */
export function mpiAvailability(): MpiAvailability {
  try {
    const { name, version } = loadMpiLibrary();
    return { available: true, library: name, version };
  } catch (error) {
    return { available: false, reason: error instanceof Error ? error.message : String(error) };
  }
}
