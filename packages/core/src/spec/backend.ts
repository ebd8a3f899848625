import type { DType, Shape, ValueType } from './dtype.ts';
import type { CompositeOp, ComputeOp, ComputeParams } from './op.ts';
import type { Sizes, SizeSymbol } from './sized.ts';

/** One op of a program; `inputs` are value ids. */
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
 * A straight-line computation. Value ids: 0 … inputs.length-1 are the inputs, then one per
 * instruction, which reads only smaller ids. Shapes may have 0-size dims.
 */
export interface Program {
  readonly inputs: readonly ValueType[];
  readonly instructions: readonly Instruction[];
  /** Value ids, each distinct and the id of an instruction or an input. */
  readonly outputs: readonly number[];
  /**
   * `value` (an instruction) replaces the contents of input `target` in place, as if after every
   * other instruction had run; an output that is such an input has the old contents. Updates are not listed in `outputs` unless also wanted there.
   */
  readonly updates: readonly { readonly target: number; readonly value: number }[];
}

/** A program of which some sizes are not known before it runs. */
export interface SizedProgram {
  readonly symbols: readonly SizeSymbol[];
  /** The program at some sizes. Programs at different sizes differ in nothing but shapes, and parameters that are sizes. */
  at(sizes: Sizes): Program;
}

/** Memory of a backend. Sub-buffers share the bytes of their parent and are not freed. */
export interface DeviceBuffer {
  readonly byteLength: number;
  subBuffer(byteOffset: number, byteLength: number): DeviceBuffer;
}

/** What a backend can do. */
export interface BackendLimits {
  /** What the backend computes with; buffers may hold any dtype. */
  readonly dtypes: ReadonlySet<DType>;
  /** Composites it runs without decomposition. */
  readonly native: ReadonlySet<CompositeOp>;
  /** Alignment in bytes that sub-buffers given to `run` keep. */
  readonly alignment: number;
}

/** How one program runs. */
export interface RunOptions {
  /**
   * Other work of this thread, such as communication that is under way, must go on meanwhile: long
   * computations leave its event loop free, for a few microseconds more each. Default: false.
   */
  readonly overlap?: boolean;
  /** One number for each symbol of a sized program. */
  readonly sizes?: Sizes;
  /** Of a backend whose `timing` is 'device': called once it is known how long the device computed the run. */
  readonly onComputed?: (durationMs: number) => void;
}

/** A compiled program. */
export interface Executable {
  /**
   * Buffers in the order of `program.inputs` and `program.outputs`; outputs do not overlap inputs
   * or each other. Inputs that are update targets are written. Runs are ordered with every other
   * call on the backend; the promise settles when it is safe to start the next. Rejects with
   * IndexError.ofRun where an index of an instruction that the outputs or
   * updates depend on is out of range: before any update where the indices can be known by then, and
   * the backend goes on as before. Where it rejects when an update may have been made, the error is a
   * ShardwiseError whose field `updated` is true: core then refuses to go on with this rank.
   */
  run(
    inputs: readonly DeviceBuffer[],
    outputs: readonly DeviceBuffer[],
    options?: RunOptions,
  ): Promise<void>;
  dispose(): void;
}

/** How much memory a backend's buffers take, temporaries of compiled programs included. */
export interface MemoryUsage {
  readonly bytesInUse: number;
  /** The most that was ever in use at once. */
  readonly peakBytes: number;
}

/** Executes programs on one device. Calls take effect in order. */
export interface Backend {
  readonly name: string;
  /** What computes, and why it was chosen: a line of the run's report. */
  readonly description?: string;
  /**
   * For a backend whose runs settle before the device has computed. 'device': it tells how long the device
   * computed (`RunOptions.onComputed`). 'encoding': it cannot tell, so the time of a run is the time that it
   * takes to submit it.
   */
  readonly timing?: 'device' | 'encoding';
  readonly limits: BackendLimits;
  /** The contents are unspecified. Throws OutOfMemoryError. */
  alloc(byteLength: number): DeviceBuffer;
  /** The contents stay until the runs that use them have ended. */
  free(buffer: DeviceBuffer): void;
  /** The length of `bytes` is that of the buffer. */
  write(buffer: DeviceBuffer, bytes: Uint8Array): void;
  /** A copy of the contents. */
  read(buffer: DeviceBuffer): Promise<Uint8Array>;
  /** The bytes themselves, if the device computes in host memory; otherwise undefined. */
  map(buffer: DeviceBuffer): Uint8Array | undefined;
  compile(program: Program): Promise<Executable>;
  /**
   * Compiles a program for all values of its symbols. Returns undefined if the backend cannot do this; then
   * core has the program compiled again for each size. Core does the same if a backend does not have this
   * method.
   */
  compileSized?(program: SizedProgram): Promise<Executable | undefined>;
  /** Settles when everything enqueued so far has been done. */
  sync(): Promise<void>;
  /** Absent if the device does not count its memory. */
  usage?(): MemoryUsage;
}
