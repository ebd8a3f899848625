import { BackendError, OutOfMemoryError } from '@shardwise/core/spec';
import type {
  Backend,
  DeviceBuffer,
  DType,
  Executable,
  Program,
  SizedProgram,
} from '@shardwise/core/spec';
import { ALIGNMENT, type Bf16Sums, compile } from './executable.ts';
import { HostBuffer } from './host-buffer.ts';

/** Options of `interpreter`. */
export interface InterpreterOptions {
  /** Whether `map` returns the bytes themselves. Otherwise callers must use `write` and `read`. */
  readonly mappable?: boolean;
  /** Whether it compiles programs for varying sizes. Otherwise each size needs a plan. Default: true. */
  readonly sized?: boolean;
  /** `alloc` throws OutOfMemoryError beyond this number of bytes. */
  readonly capacityBytes?: number;
  /**
   * How products of bf16 are summed: in f64 and rounded once, or with the bits of AVX512-BF16, which the CPU
   * backend without AMX also gives. Default: 'f64'.
   */
  readonly bf16Sums?: Bf16Sums;
}

/** A slow backend that computes in f64, by the definition of each op. */
export interface Interpreter extends Backend {
  /** Bytes that are allocated and not yet freed. */
  bytesInUse(): number;
}

const computed: ReadonlySet<DType> = new Set<DType>([
  'f64',
  'f32',
  'f16',
  'bf16',
  'i32',
  'u8',
  'bool',
]);

/**
 * The reference backend, which is slow and simple. It defines what each primitive means, and every other
 * backend is compared with it. Float sums are added in f64 in index order and rounded once. It checks what
 * other backends may trust: ids, byte lengths, alignment, overlap, use after free.
 */
export function interpreter(options: InterpreterOptions = {}): Interpreter {
  const { mappable = false, sized = true, capacityBytes = Infinity, bf16Sums = 'f64' } = options;
  let bytesInUse = 0;
  return {
    specificationVersion: 1,
    name: 'interpreter',
    limits: { dtypes: computed, native: new Set(), alignment: ALIGNMENT },
    bytesInUse: () => bytesInUse,
    alloc: (byteLength: number): DeviceBuffer => {
      if (bytesInUse + byteLength > capacityBytes) {
        throw outOfMemory(byteLength, bytesInUse, capacityBytes);
      }
      const buffer = allocate(byteLength, bytesInUse);
      bytesInUse += byteLength;
      return buffer;
    },
    free: (buffer: DeviceBuffer): void => {
      HostBuffer.from(buffer).free();
      bytesInUse -= buffer.byteLength;
    },
    write: (buffer: DeviceBuffer, bytes: Uint8Array): void => {
      if (bytes.byteLength !== buffer.byteLength) throw wrongLength(buffer, bytes);
      HostBuffer.from(buffer).bytes().set(bytes);
    },
    read: async (buffer: DeviceBuffer, target?: Uint8Array): Promise<Uint8Array> => {
      const bytes = HostBuffer.from(buffer).bytes();
      if (target === undefined) return bytes.slice();
      target.set(bytes);
      return target;
    },
    map: (buffer: DeviceBuffer): Uint8Array | undefined =>
      mappable ? HostBuffer.from(buffer).bytes() : undefined,
    compile: async (program: Program): Promise<Executable> => compile(program, bf16Sums),
    ...(sized && {
      compileSized: async (program: SizedProgram) => compileSized(program, bf16Sums),
    }),
    sync: async (): Promise<void> => {},
  };
}

/** Compiles a program for all sizes. Each run compiles it at its sizes. */
function compileSized(program: SizedProgram, bf16Sums: Bf16Sums): Executable {
  let disposed = false;
  return {
    run: async (inputs, outputs, { sizes = [], ...options } = {}) => {
      const executable = compile(program.at(sizes), bf16Sums);
      if (disposed) executable.dispose();
      return executable.run(inputs, outputs, options);
    },
    dispose: () => {
      disposed = true;
    },
  };
}

function allocate(byteLength: number, bytesInUse: number): HostBuffer {
  try {
    return HostBuffer.allocate(byteLength);
  } catch (error) {
    if (error instanceof RangeError) throw outOfMemory(byteLength, bytesInUse, Infinity);
    throw error;
  }
}

function outOfMemory(
  askedBytes: number,
  usedBytes: number,
  capacityBytes: number,
): OutOfMemoryError {
  return new OutOfMemoryError(
    {
      asked: `${askedBytes} bytes`,
      found: `${usedBytes} of at most ${capacityBytes} bytes are in use, and no such block is free`,
      todo: 'Free buffers, or give the interpreter more capacityBytes',
    },
    { askedBytes, usedBytes, capacityBytes },
  );
}

function wrongLength(buffer: DeviceBuffer, bytes: Uint8Array): BackendError {
  return new BackendError(
    {
      asked: `to write ${bytes.byteLength} bytes`,
      found: `a buffer of ${buffer.byteLength} bytes`,
      todo: 'Write a sub-buffer of the length of the bytes',
    },
    { asked: bytes.byteLength, found: buffer.byteLength },
  );
}
