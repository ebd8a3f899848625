import { type TensorType, tensorTypes } from '../../../emit/onnx/model.ts';
import { addressArray, runtime } from './api.ts';
import { addressOf, type Address } from '../../../memory/host-address.ts';
import { hasFreeCore } from '../../../memory/native-calls.ts';

export interface SessionOptions {
  readonly threads: number;
}

const GRAPH_OPTIMIZATION_ALL = 99;
const SEQUENTIAL = 0;
/** The log level of fatal errors. Other errors are thrown with the text that would be logged. */
const FATAL_ONLY = 4;

/** An ONNX model, ready to run on memory that the caller owns. */
export class Session {
  readonly #address: Address;
  readonly #leavesThread: boolean;
  #released = false;

  /** Throws BackendError if ONNX Runtime does not accept the model. `asked` says what was asked for, in the error. */
  constructor(model: Uint8Array, options: SessionOptions, asked: string) {
    const { functions, env, check, canOverlap } = runtime();
    this.#leavesThread = canOverlap && hasFreeCore(options.threads);
    const out = addressArray(1);
    check(asked, functions.CreateSessionOptions(out));
    const settings = out[0] ?? 0n;
    try {
      check(asked, functions.SetIntraOpNumThreads(settings, options.threads));
      check(asked, functions.SetInterOpNumThreads(settings, 1));
      // Otherwise each session would keep the most memory that its temporaries ever needed, in addition to ours.
      check(asked, functions.DisableMemPattern(settings));
      check(asked, functions.DisableCpuMemArena(settings));
      check(asked, functions.SetSessionExecutionMode(settings, SEQUENTIAL));
      check(asked, functions.SetSessionGraphOptimizationLevel(settings, GRAPH_OPTIMIZATION_ALL));
      check(asked, functions.SetSessionLogSeverityLevel(settings, FATAL_ONLY));
      // Threads that spin between ops take cores from other ranks, which makes them 4 to 8 times slower.
      check(
        asked,
        functions.AddSessionConfigEntry(settings, 'session.intra_op.allow_spinning', '0'),
      );
      check(asked, functions.CreateSessionFromArray(env, model, model.byteLength, settings, out));
    } finally {
      functions.ReleaseSessionOptions(settings);
    }
    this.#address = out[0] ?? 0n;
  }

  /** Runs the session and blocks the thread. Throws BackendError if a kernel fails. `describe` says what runs. */
  run(inputs: Values, outputs: Values, describe: () => string): void {
    const { functions, check } = runtime();
    check(
      () => `to run ${describe()}`,
      functions.Run(
        this.#address,
        null,
        inputs.names,
        inputs.addresses,
        inputs.count,
        outputs.names,
        outputs.count,
        outputs.addresses,
      ),
    );
  }

  /**
   * Does what `run` does, on another thread if this platform and process allow it and the host has a core for it. Until the promise settles, the
   * session, its tensors and their memory must stay alive.
   */
  runOverlapped(inputs: Values, outputs: Values, describe: () => string): Promise<void> {
    const { functions, check } = runtime();
    return new Promise((resolve, reject) => {
      if (!this.#leavesThread) {
        this.run(inputs, outputs, describe);
        resolve();
        return;
      }
      functions.Run.async(
        this.#address,
        null,
        inputs.names,
        inputs.addresses,
        inputs.count,
        outputs.names,
        outputs.count,
        outputs.addresses,
        (error, status) => {
          try {
            if (error !== null) throw error;
            check(() => `to run ${describe()}`, status);
            resolve();
          } catch (failure) {
            reject(failure);
          }
        },
      );
    });
  }

  release(): void {
    if (this.#released) return;
    this.#released = true;
    runtime().functions.ReleaseSession(this.#address);
  }
}

/** The names and tensors of a session's inputs or outputs, in the form that the C API takes. */
export class Values {
  readonly count: number;
  readonly names: BigUint64Array;
  readonly addresses: BigUint64Array;
  /** Keeps the names' bytes alive. */
  readonly #text: Uint8Array;

  constructor(names: readonly string[]) {
    this.count = names.length;
    this.addresses = addressArray(names.length);
    const encoded = names.map((name) => new TextEncoder().encode(`${name}\0`));
    const length = encoded.reduce((sum, bytes) => sum + bytes.byteLength, 0);
    this.#text = new Uint8Array(new ArrayBuffer(length));
    this.names = addressArray(names.length);
    if (length === 0) return;
    let offset = 0;
    const base = addressOf(this.#text);
    encoded.forEach((bytes, index) => {
      this.#text.set(bytes, offset);
      this.names[index] = base + BigInt(offset);
      offset += bytes.byteLength;
    });
  }

  /**
   * Replaces a tensor with one over this memory. `shape` has its dims. The C API uses the same numbers for types as
   * models do.
   */
  set(
    index: number,
    data: Address,
    byteLength: number,
    shape: readonly number[],
    type: TensorType,
  ): void {
    const { functions, cpuMemory, check } = runtime();
    const out = addressArray(1);
    const dims = addressArray(shape.length);
    shape.forEach((size, dim) => {
      dims[dim] = BigInt(size);
    });
    check(
      'to describe a tensor',
      functions.CreateTensorWithDataAsOrtValue(
        cpuMemory,
        data,
        byteLength,
        dims,
        dims.length,
        tensorTypes[type],
        out,
      ),
    );
    this.#releaseAt(index);
    this.addresses[index] = out[0] ?? 0n;
  }

  release(): void {
    for (let index = 0; index < this.count; index++) this.#releaseAt(index);
  }

  #releaseAt(index: number): void {
    const old = this.addresses[index] ?? 0n;
    if (old !== 0n) runtime().functions.ReleaseValue(old);
    this.addresses[index] = 0n;
  }
}
