import { availableParallelism } from 'node:os';
import { isMainThread } from 'node:worker_threads';
import { ConfigError } from '@shardwise/core/spec';
import type { LibraryHandle } from 'koffi';
import { loadKoffi } from '../native/load-koffi.ts';
import { type MpiAbi, mpichAbi, openMpiAbi } from './mpi-abi.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Names of the library, which are tried in turn. Debian calls MPICH by its own name, and other systems by that of the
 * standard.
 */
const OPEN_MPI = ['libmpi.so.40'];
const MPICH = ['libmpich.so.12', 'libmpi.so.12'];

const VERSION_BYTES = 8192;
const ASKED = 'A group over MPI';

/** An MPI library that is loaded in this process. */
export interface MpiLibrary {
  /** The name of the file that was loaded. */
  readonly name: string;
  /** The library's description of itself, in one line. */
  readonly version: string;
  readonly abi: MpiAbi;
  /** Returns the C function with this prototype, in which HANDLE stands for the type of handles. */
  readonly func: (prototype: string) => (...values: readonly unknown[]) => unknown;
  /** Lets another thread run on this core. */
  readonly yieldCore: () => void;
}

/**
 * Loads the MPI library of the launcher that started this process, or the one in the environment variable
 * SHARDWISE_MPI_LIBRARY. Throws ConfigError if it is not there, or if the optional package koffi is missing.
 */
export function loadMpiLibrary(environment: Environment = process.env): MpiLibrary {
  if (!isMainThread) {
    throw unavailableError('this is a worker thread', 'Join from the main thread of each process');
  }
  prepareEnvironment(environment);
  const koffi = loadKoffi(ASKED);
  const reasons: string[] = [];
  for (const name of mpiLibraryNames(environment)) {
    try {
      // The library loads parts of itself, which look for its symbols, so these must be global.
      const library = koffi.load(name, { global: true });
      return identify(name, library, koffi.load(null).func('int sched_yield()'));
    } catch (error) {
      if (error instanceof ConfigError) throw error;
      reasons.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw unavailableError(
    `no MPI library can be loaded (${reasons.join('; ')})`,
    'Install Open MPI or MPICH, or name its library in SHARDWISE_MPI_LIBRARY',
  );
}

/** Names of libraries to try. Those of the launcher that started this process come first. */
export function mpiLibraryNames(environment: Environment): readonly string[] {
  const named = environment['SHARDWISE_MPI_LIBRARY'];
  if (named !== undefined && named !== '') return [named];
  if (environment['OMPI_COMM_WORLD_RANK'] !== undefined) return [...OPEN_MPI, ...MPICH];
  if (environment['PMI_RANK'] !== undefined) return [...MPICH, ...OPEN_MPI];
  return [...OPEN_MPI, ...MPICH];
}

function prepareEnvironment(environment: Environment): void {
  // Without this, UCX ends the process at a WebAssembly access out of bounds, which otherwise is only a
  // RuntimeError.
  process.env['UCX_ERROR_SIGNALS'] ??= '';
  const localRanks = Number(environment['OMPI_COMM_WORLD_LOCAL_SIZE'] ?? 1);
  // A rank that spins would keep the rank that it waits for from running.
  if (localRanks > availableParallelism()) {
    process.env['OMPI_MCA_mpi_yield_when_idle'] ??= '1';
  }
}

function identify(name: string, library: LibraryHandle, yieldCore: () => void): MpiLibrary {
  const text = new Uint8Array(new ArrayBuffer(VERSION_BYTES));
  const length = new Int32Array(new ArrayBuffer(4));
  library.func('int MPI_Get_library_version(void *text, void *length)')(text, length);
  const [first = ''] = new TextDecoder()
    .decode(text.subarray(0, Math.min(length[0] ?? 0, VERSION_BYTES)))
    .replaceAll('\0', '')
    .split('\n', 1);
  const version = first.replaceAll(/\s+/g, ' ').trim();
  const abi = abiOf(version, (symbol): bigint => library.symbol(symbol));
  const func: MpiLibrary['func'] = (prototype) =>
    library.func(prototype.replaceAll('HANDLE', abi.handle));
  return { name, version, abi, func, yieldCore };
}

function abiOf(version: string, symbol: (name: string) => bigint): MpiAbi {
  if (version.startsWith('Open MPI')) return openMpiAbi(symbol);
  if (/MPICH|MVAPICH|Intel\(R\) MPI/i.test(version)) return mpichAbi;
  throw unavailableError(
    `the library calls itself ${JSON.stringify(version)}`,
    'Name one of Open MPI, MPICH, MVAPICH or Intel MPI in SHARDWISE_MPI_LIBRARY',
  );
}

function unavailableError(found: string, todo: string): ConfigError {
  return new ConfigError({ asked: ASKED, found, todo }, {});
}

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
