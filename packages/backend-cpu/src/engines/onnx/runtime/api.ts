import { BackendError } from '@shardwise/core/spec';
import koffi from 'koffi';
import { setNativeVariable } from '../../../memory/c-library.ts';
import { callThreads } from '../../../memory/native-calls.ts';
import { libraryPath } from './library-path.ts';
import type { Address } from '../../../memory/host-address.ts';

/** An OrtStatus. It is null if the call succeeded. */
type Status = Address | null;

/** One element, into which the native side writes an address. */
type OutAddress = BigUint64Array;

/**
 * The functions of ONNX Runtime's C API that we call, with their index in its table. The table only ever grows at its
 * end, so an index holds for every later version.
 */
const signatures = {
  GetErrorMessage: [2, 'const char *', ['void *']],
  CreateEnv: [3, 'void *', ['int', 'const char *', 'void *']],
  CreateSessionFromArray: [8, 'void *', ['void *', 'void *', 'size_t', 'void *', 'void *']],
  Run: [
    9,
    'void *',
    ['void *', 'void *', 'void *', 'void *', 'size_t', 'void *', 'size_t', 'void *'],
  ],
  CreateSessionOptions: [10, 'void *', ['void *']],
  SetSessionExecutionMode: [13, 'void *', ['void *', 'int']],
  DisableMemPattern: [17, 'void *', ['void *']],
  DisableCpuMemArena: [19, 'void *', ['void *']],
  SetSessionLogSeverityLevel: [22, 'void *', ['void *', 'int']],
  SetSessionGraphOptimizationLevel: [23, 'void *', ['void *', 'int']],
  SetIntraOpNumThreads: [24, 'void *', ['void *', 'int']],
  SetInterOpNumThreads: [25, 'void *', ['void *', 'int']],
  CreateTensorWithDataAsOrtValue: [
    49,
    'void *',
    ['void *', 'void *', 'size_t', 'void *', 'size_t', 'int', 'void *'],
  ],
  CreateCpuMemoryInfo: [69, 'void *', ['int', 'int', 'void *']],
  ReleaseStatus: [93, 'void', ['void *']],
  ReleaseSession: [95, 'void', ['void *']],
  ReleaseValue: [96, 'void', ['void *']],
  ReleaseSessionOptions: [100, 'void', ['void *']],
  AddSessionConfigEntry: [130, 'void *', ['void *', 'const char *', 'const char *']],
} as const satisfies Record<string, readonly [number, string, readonly string[]]>;

/** The version of the table that has all of the functions above. It is the version of ONNX Runtime 1.16. */
const API_VERSION = 16;

/** A function that blocks the thread, or that runs on another thread and then calls `done` with the status. */
interface OverlappedFunction<Parameters extends readonly unknown[]> {
  (...parameters: Parameters): Status;
  async(...parameters: [...Parameters, done: (error: Error | null, status: Status) => void]): void;
}

/** The parameters of the table's functions. Out-parameters are typed arrays that the call fills. */
interface Functions {
  GetErrorMessage(status: Address): string;
  CreateEnv(logLevel: number, name: string, out: OutAddress): Status;
  CreateSessionFromArray(
    env: Address,
    model: Uint8Array,
    byteLength: number,
    options: Address,
    out: OutAddress,
  ): Status;
  Run: OverlappedFunction<
    [
      session: Address,
      options: null,
      inputNames: BigUint64Array,
      inputs: BigUint64Array,
      inputCount: number,
      outputNames: BigUint64Array,
      outputCount: number,
      outputs: BigUint64Array,
    ]
  >;
  CreateSessionOptions(out: OutAddress): Status;
  SetSessionExecutionMode(options: Address, mode: number): Status;
  DisableMemPattern(options: Address): Status;
  DisableCpuMemArena(options: Address): Status;
  SetSessionLogSeverityLevel(options: Address, level: number): Status;
  SetSessionGraphOptimizationLevel(options: Address, level: number): Status;
  SetIntraOpNumThreads(options: Address, threads: number): Status;
  SetInterOpNumThreads(options: Address, threads: number): Status;
  CreateTensorWithDataAsOrtValue(
    memoryInfo: Address,
    data: Address,
    byteLength: number,
    shape: BigUint64Array,
    ndim: number,
    elementType: number,
    out: OutAddress,
  ): Status;
  CreateCpuMemoryInfo(allocator: number, memoryType: number, out: OutAddress): Status;
  ReleaseStatus(status: Address): void;
  ReleaseSession(session: Address): void;
  ReleaseValue(value: Address): void;
  ReleaseSessionOptions(options: Address): void;
  AddSessionConfigEntry(options: Address, key: string, value: string): Status;
}

/**
 * ONNX Runtime's library, which we call directly. The package's own JavaScript interface copies every output into a new
 * ArrayBuffer, even an output that was computed in place. For a training step, that costs more than all of its
 * elementwise work.
 */
export interface Runtime {
  readonly functions: Functions;
  readonly env: Address;
  readonly cpuMemory: Address;
  /** Kept here because the library is unloaded when this object is collected. */
  readonly library: unknown;
  /** Whether calls may run on other threads. */
  readonly canOverlap: boolean;
  /** Throws BackendError with the runtime's message if a call failed. */
  readonly check: (asked: string | (() => string), status: Status) => void;
}

let loaded: Runtime | undefined;

/** Loads the library once per thread. Throws BackendError if this platform has none. */
export function runtime(): Runtime {
  loaded ??= load();
  return loaded;
}

function load(): Runtime {
  const canOverlap = callThreads();
  // Its builds would otherwise write what they do to a data base in the user's home, and send it to Microsoft.
  setNativeVariable('ORT_DISABLE_TELEMETRY', '1');
  const { library, table } = openLibrary(libraryPath());
  const functions = functionsOf(table);
  const check: Runtime['check'] = (asked, status) => {
    if (status === null) return;
    const found = functions.GetErrorMessage(status);
    functions.ReleaseStatus(status);
    throw new BackendError({
      asked: typeof asked === 'string' ? asked : asked(),
      found: `ONNX Runtime refused it: ${found}`,
      todo: 'Check dtypes, shapes and values, above all that indices are in range',
    });
  };
  const out = addressArray(1);
  const take = (): Address => out[0] ?? 0n;
  // Log level 3 means errors only.
  check('to start ONNX Runtime', functions.CreateEnv(3, 'shardwise', out));
  const env = take();
  // A device allocator with default memory stands for plain host memory that ONNX Runtime does not own.
  check('to start ONNX Runtime', functions.CreateCpuMemoryInfo(0, 0, out));
  return { functions, env, cpuMemory: take(), library, canOverlap, check };
}

/**
 * Makes an array of 64-bit words for the native side. It has a buffer of its own: small typed arrays without one lie in
 * the JavaScript heap, where they may move while a call writes to them.
 */
export function addressArray(length: number): BigUint64Array {
  return new BigUint64Array(new ArrayBuffer(length * 8));
}

/** Returns the library and the table of its C API. */
function openLibrary(path: string): { readonly library: unknown; readonly table: Address } {
  try {
    const library = koffi.load(path);
    const base: unknown = library.func('OrtGetApiBase', 'void *', [])();
    const getApi: unknown = koffi.decode(
      koffi.decode(base, 0, 'void *'),
      koffi.proto('void *', ['uint32_t']),
    );
    const table: unknown = typeof getApi === 'function' ? getApi(API_VERSION) : undefined;
    if (typeof table === 'bigint') return { library, table };
    throw new Error(`it has no version ${API_VERSION} of the C API`);
  } catch (cause) {
    throw new BackendError(
      {
        asked: `to load ONNX Runtime from ${path}`,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Install the dependencies again on this machine; on Linux it needs glibc 2.28 or later',
      },
      { path },
      { cause },
    );
  }
}

function functionsOf(table: Address): Functions {
  const entries = Object.entries(signatures).map(([name, [index, result, parameters]]) => {
    const prototype = koffi.proto(result, [...parameters]);
    return [name, koffi.decode(koffi.decode(table, index * 8, 'void *'), prototype)];
  });
  // koffi gives what it decodes the type unknown. The interface describes the signatures above.
  return Object.fromEntries(entries) as Functions;
}
