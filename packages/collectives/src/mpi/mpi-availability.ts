import { loadMpiLibrary } from './mpi-library.ts';

/** Whether MPI can be used, and if not, why. */
export type MpiAvailability =
  | {
      readonly available: true;
      /** The name of the library that was loaded. */
      readonly library: string;
      /** What the library calls itself: `Open MPI v4.1.4, ...`. */
      readonly version: string;
    }
  | { readonly available: false; readonly reason: string };

/**
 * Whether this process can load an MPI library. It loads the library to find out, and keeps it. It does not say
 * whether an MPI launcher has started the process; the environment of the process does.
 */
export function mpiAvailability(): MpiAvailability {
  try {
    const { name, version } = loadMpiLibrary();
    return { available: true, library: name, version };
  } catch (error) {
    return { available: false, reason: error instanceof Error ? error.message : String(error) };
  }
}
