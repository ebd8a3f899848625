import type { DType, Shape, ValueType } from './dtype.ts';
import type { CompositeOp, ComputeOp, ComputeParams } from './op.ts';

/** One op of a program. `inputs` are value ids. */
export type Instruction = {
  [K in ComputeOp]: {
    readonly op: K;
    readonly params: ComputeParams[K];
    readonly inputs: readonly number[];
    readonly shape: Shape;
    readonly dtype: DType;
  };
}[ComputeOp];

/**
 * A computation without branches. Value ids: 0 … inputs.length-1 are the inputs, followed by one for each
 * instruction, which reads only smaller ids. Shapes may have dims of size 0.
 */
export interface Program {
  readonly inputs: readonly ValueType[];
  readonly instructions: readonly Instruction[];
  /** The ids of the values that are outputs. They are all different, and may be instructions or inputs. */
  readonly outputs: readonly number[];
  /**
   * `value` (an instruction) replaces the contents of input `target` in place, as if after every other
   * instruction had run. If such an input is also an output, the output has the old contents. An updated value
   * is listed in `outputs` only if it is also an output.
   */
  readonly updates: readonly { readonly target: number; readonly value: number }[];
}

/** A size that may be another number in each run. It is at least 2, because 0 and 1 change what programs do. */
export interface SizeSymbol {
  /** The largest value that the size may have. Memory is planned for it. */
  readonly max: number;
  /** The largest value that was seen. Programs are valid with it and with values just below it. */
  readonly seen: number;
  /**
   * The size differs from the seen value by multiples of this number, for example because it is divided among ranks,
   * or halved.
   */
  readonly spacing: number;
}

/** One number for each symbol. */
export type Sizes = readonly number[];

/** A program with sizes that are not known before it runs. */
export interface SizedProgram {
  readonly symbols: readonly SizeSymbol[];
  /**
   * The program at these sizes. Programs at different sizes differ only in shapes, and in parameters that are
   * sizes.
   */
  at(sizes: Sizes): Program;
}

/** Memory of a backend. Sub-buffers share the bytes of their parent and are not freed. */
export interface DeviceBuffer {
  readonly byteLength: number;
  subBuffer(byteOffset: number, byteLength: number): DeviceBuffer;
}

/** What a backend can do. */
export interface BackendLimits {
  /** The dtypes that the backend computes with. Buffers may have any dtype. */
  readonly dtypes: ReadonlySet<DType>;
  /** The composites that the backend runs without decomposition. */
  readonly native: ReadonlySet<CompositeOp>;
  /** The alignment in bytes of sub-buffers that `run` gets. */
  readonly alignment: number;
  /** The most bytes of one buffer, if the device has such a limit besides the size of its memory. */
  readonly bufferBytes?: number;
}

/** How one program runs. */
export interface RunOptions {
  /**
   * Whether other work of this thread, such as communication that is under way, must go on during the run. Long
   * computations then leave the thread's event loop free, which costs a few microseconds each. Default: false.
   */
  readonly overlap?: boolean;
  /** One number for each symbol of a sized program. */
  readonly sizes?: Sizes;
  /** Called when it is known how long the device computed the run, by backends whose `timing` is 'device'. */
  readonly onComputed?: (durationMs: number) => void;
  /**
   * Called when instructions that the backend computes together have run, with their indexes in the program, by
   * backends that divide programs. Instructions that several parts compute again are in each of them.
   */
  readonly onPart?: (instructions: readonly number[], durationMs: number) => void;
}

/** The values that a program keeps in the device's own temporary memory while it runs. */
export interface Temporaries {
  /** The number of parts that run one after another. */
  readonly parts: number;
  /**
   * By value, the first and the last part that need it. Ids are those of the program; a backend may add values of its
   * own, with larger ids.
   */
  readonly values: readonly {
    readonly id: number;
    readonly byteLength: number;
    readonly first: number;
    readonly last: number;
  }[];
}

/** A compiled program. */
export interface Executable {
  /** Absent if the backend does not know it. It is for timelines of memory. */
  readonly temporaries?: Temporaries;
  /**
   * Runs the program. Buffers are in the order of `program.inputs` and `program.outputs`. Outputs do not
   * overlap inputs or each other. Inputs that are targets of updates are written. Runs are ordered with every
   * other call on the backend. The promise settles when it is safe to start the next run.
   *
   * Rejects with IndexError.ofRun if an index of an instruction that outputs or updates depend on is out of
   * range. If the indices can be known by then, it rejects before any update, and the backend can still be
   * used. If it rejects when an update may have been made, the error is a ShardwiseError whose field `updated`
   * is true; core then refuses further work on this rank.
   */
  run(
    inputs: readonly DeviceBuffer[],
    outputs: readonly DeviceBuffer[],
    options?: RunOptions,
  ): Promise<void>;
  dispose(): void;
}

/** How much memory a backend's buffers take, including temporary values of compiled programs. */
export interface MemoryUsage {
  readonly bytesInUse: number;
  /** The most bytes that were in use at the same time. */
  readonly peakBytes: number;
}

/** Memory of the host that a backend lends. The backend uses it again after it is freed. */
export interface HostMemory {
  readonly bytes: Uint8Array;
  /** Gives the memory back to the backend. */
  free(): void;
}

/** Executes programs on one device. Calls take effect in order. */
export interface Backend {
  /** The version of this interface that the object implements (docs/decisions/0030-versions-of-interfaces.md). */
  readonly specificationVersion: 1;
  readonly name: string;
  /** Says what computes, and why it was chosen. It is a line of the run's report. */
  readonly description?: string;
  /**
   * Only for a backend whose runs settle before the device has computed. 'device' means that it reports how long the
   * device computed (`RunOptions.onComputed`). 'encoding' means that it cannot measure this, so that the time of a run
   * is the time that it takes to submit it.
   */
  readonly timing?: 'device' | 'encoding';
  readonly limits: BackendLimits;
  /** The contents are unspecified. Throws OutOfMemoryError. */
  alloc(byteLength: number): DeviceBuffer;
  /** The contents stay until the runs that use them have ended. */
  free(buffer: DeviceBuffer): void;
  /** `bytes` must be as long as the buffer. */
  write(buffer: DeviceBuffer, bytes: Uint8Array): void;
  /**
   * Copies the contents to `target` and returns it. Without `target`, the copy is new memory. `target` must have as
   * many bytes as the buffer.
   */
  read(buffer: DeviceBuffer, target?: Uint8Array): Promise<Uint8Array>;
  /**
   * Memory of the host for values on their way between the device and other ranks. If the ranks share memory, it comes
   * from this rank's region. The method is absent if the device computes in host memory, or if new memory is as good.
   */
  hostMemory?(byteLength: number): HostMemory;
  /** The bytes of the buffer itself, if the device computes in host memory. Otherwise undefined. */
  map(buffer: DeviceBuffer): Uint8Array | undefined;
  compile(program: Program): Promise<Executable>;
  /**
   * The bytes that `temporaries` of this program take while it runs, without compiling it. Absent if the backend does not
   * know it before.
   */
  temporaryBytes?(program: Program): number;
  /**
   * Compiles a program for all values of its symbols. Returns undefined if the backend cannot do this. Core then has
   * the program compiled again for each size. It does the same if a backend does not have this method.
   */
  compileSized?(program: SizedProgram): Promise<Executable | undefined>;
  /** Settles when everything enqueued so far has been done. */
  sync(): Promise<void>;
  /** Absent if the device does not count its memory. */
  usage?(): MemoryUsage;
}
