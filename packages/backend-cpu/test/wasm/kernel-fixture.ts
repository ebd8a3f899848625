import {
  type ComputeOp,
  type ComputeParams,
  type DType,
  dtypes,
  type Shape,
  type ValueType,
} from '@shardwise/core/spec';
import { loopMachine } from '../../src/engines/loops/loop-machine.ts';
import { planKernels } from '../../src/kernels/plan-kernels.ts';
import { type KernelTarget, linkKernels } from '../../src/kernels/link-kernels.ts';
import type { KernelExecutable, KernelInstruction } from '../../src/kernels/kernel-program.ts';

const ALIGNMENT = 64;
const GUARD_BYTES = 64;
const GUARD = 0xa5;
const PAGE_BYTES = 65536;

/** Builds a KernelProgram value by value and runs it on host numbers. */
export class KernelFixture {
  readonly values: ValueType[] = [];
  /**
   * Inputs may be declared at any point here, so their number is unknown. It is only needed to report an index that is
   * out of range.
   */
  readonly inputCount = 0;
  readonly instructions: KernelInstruction[] = [];
  readonly outputs: number[] = [];
  readonly inPlace: Map<number, number> = new Map();
  readonly #data = new Map<number, readonly number[]>();

  input(data: readonly number[], dtype: DType = 'f32', shape: Shape = [data.length]): number {
    const id = this.#value({ shape, dtype });
    this.#data.set(id, data);
    return id;
  }

  op<K extends ComputeOp>(
    op: K,
    inputs: readonly number[],
    params: ComputeParams[K],
    shape: Shape,
    dtype: DType = 'f32',
  ): number {
    const output = this.#value({ shape, dtype });
    // The signature of this method has already checked that op and params belong together.
    this.instructions.push({ op, inputs, params, shape, dtype, output } as KernelInstruction);
    return output;
  }

  /** Adds a constant of `shape` as the graph makes it: a scalar that is reshaped and expanded. */
  constant(value: number, shape: Shape, dtype: DType = 'f32'): number {
    const scalar = this.op('constant', [], { value, shape: [], dtype }, [], dtype);
    return this.broadcast(scalar, shape, dtype);
  }

  /** Repeats a scalar over `shape`. */
  broadcast(scalar: number, shape: Shape, dtype: DType = 'f32'): number {
    const ones = shape.map(() => 1);
    return this.op(
      'expand',
      [this.op('reshape', [scalar], { shape: ones }, ones, dtype)],
      { shape },
      shape,
      dtype,
    );
  }

  compile(memory: WebAssembly.Memory, loops: KernelTarget['loops'] = null): KernelExecutable {
    return linkKernels({ memory, loops }, planKernels(this));
  }

  /**
   * Runs the program by WebAssembly, and once more by machine code if this processor has it. Both must give the same
   * bits. Programs with sums, which may be added in another order, must give nearly the same numbers. Returns the
   * outputs, then the values that were updated in place. Fails if anything wrote outside its place.
   */
  run(memory: WebAssembly.Memory = sharedMemory(this.#bytes())): number[][] {
    const results = this.#runBy(memory, null);
    const machine = loopMachine();
    if (machine.kind === 'webassembly') return results;
    const others = this.#runBy(memory, machine.code);
    // Sums that differ in their last bits may round to different 16-bit values.
    const hasSums = this.instructions.some(({ op }) => sums.has(op));
    const wanted = [...this.outputs, ...this.inPlace.keys()];
    for (const [index, values] of results.entries()) {
      const same = values.every((value, i) => {
        const other = others[index]?.[i] ?? 0;
        return hasSums
          ? isClose(value, other, this.#type(wanted[index] ?? 0).dtype)
          : Object.is(value, other);
      });
      if (!same)
        throw new Error(`Machine code computes ${others[index]?.join()}, not ${values.join()}`);
    }
    return others;
  }

  #runBy(memory: WebAssembly.Memory, loops: KernelTarget['loops']): number[][] {
    const executable = this.compile(memory, loops);
    const wanted = [...this.outputs, ...this.inPlace.keys()];
    const bytes = new Uint8Array(memory.buffer).fill(GUARD);
    const addresses = this.#layOut(memory, executable);
    executable.run((id) => addressOf(addresses, id));
    const stored = new Set(executable.storage);
    const result = wanted.map((id) => {
      const place = stored.has(id) ? id : (this.inPlace.get(id) ?? id);
      return [...view(memory, addressOf(addresses, place), this.#type(id))];
    });
    for (const [value, target] of this.inPlace) {
      const there = [...view(memory, addressOf(addresses, target), this.#type(target))];
      if (!sameBits(there, result[wanted.indexOf(value)] ?? [])) {
        throw new Error(`Value ${value} is not in the memory of value ${target}.`);
      }
    }
    for (const [id, start] of addresses) {
      const end = start + byteLength(this.#type(id));
      if (!bytes.subarray(end, end + GUARD_BYTES).every((byte) => byte === GUARD)) {
        throw new Error(`Something was written behind value ${id}.`);
      }
    }
    return result;
  }

  #layOut(memory: WebAssembly.Memory, executable: KernelExecutable): Map<number, number> {
    const addresses = new Map<number, number>();
    let top = GUARD_BYTES;
    for (const id of new Set([...this.#data.keys(), ...executable.storage])) {
      addresses.set(id, top);
      const data = this.#data.get(id);
      if (data) view(memory, top, this.#type(id)).set(data);
      top += Math.ceil((byteLength(this.#type(id)) + GUARD_BYTES) / ALIGNMENT) * ALIGNMENT;
    }
    return addresses;
  }

  #bytes(): number {
    return this.values.reduce(
      (bytes, type) => bytes + byteLength(type) + ALIGNMENT + GUARD_BYTES,
      GUARD_BYTES,
    );
  }

  #type(id: number): ValueType {
    const type = this.values[id];
    if (!type) throw new RangeError(`No value ${id}.`);
    return type;
  }

  #value(type: ValueType): number {
    this.values.push(type);
    return this.values.length - 1;
  }
}

export function sharedMemory(bytes: number): WebAssembly.Memory {
  const pages = Math.ceil(bytes / PAGE_BYTES);
  return new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
}

function view(
  memory: WebAssembly.Memory,
  address: number,
  { shape, dtype }: ValueType,
): Float32Array | Int32Array | Uint16Array | Uint8Array {
  const elements = shape.reduce((product, dim) => product * dim, 1);
  if (dtype === 'f32') return new Float32Array(memory.buffer, address, elements);
  if (dtype === 'i32') return new Int32Array(memory.buffer, address, elements);
  if (dtypes[dtype].bytes === 2) return new Uint16Array(memory.buffer, address, elements);
  return new Uint8Array(memory.buffer, address, elements);
}

function byteLength({ shape, dtype }: ValueType): number {
  return shape.reduce((product, dim) => product * dim, dtypes[dtype].bytes);
}

function addressOf(addresses: ReadonlyMap<number, number>, id: number): number {
  const address = addresses.get(id);
  if (address === undefined) throw new RangeError(`Value ${id} has no address.`);
  return address;
}

/** The ops whose kernels add up elements. */
const sums: ReadonlySet<ComputeOp> = new Set<ComputeOp>([
  ...(['softmax', 'softmaxGrad', 'logSoftmax', 'logSoftmaxGrad', 'sum'] as const),
  ...(['layerNorm', 'layerNormInputGrad', 'layerNormWeightGrad'] as const),
  ...(['rmsNorm', 'rmsNormInputGrad', 'rmsNormWeightGrad'] as const),
]);

function isClose(a: number, b: number, dtype: DType): boolean {
  if (dtypes[dtype].bytes === 2) return Math.abs(a - b) <= 1;
  return Object.is(a, b) || Math.abs(a - b) <= 1e-4 * Math.max(1, Math.abs(a));
}

function sameBits(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => Object.is(value, b[i]));
}

/** Returns deterministic f32 numbers of all magnitudes. The special values come first, rotated by the seed. */
export function sampleFloats(count: number, seed = 1): number[] {
  const special = [0, -0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, NaN, Infinity, -Infinity];
  special.push(1e-40, -1e-40, 1.4e-45, 3.4e38, -3.4e38, 1e-20, 88.5, -88.5, 100, -104, 1e10);
  const random = uniform(seed);
  const rest = Array.from({ length: count }, () =>
    Math.fround((random() - 0.5) * 2 ** Math.floor(random() * 12 - 5)),
  );
  const first = special.map((_, i) => Math.fround(special[(i + 7 * seed) % special.length] ?? 0));
  return [...first, ...rest].slice(0, count);
}

/** Returns a generator of numbers in [0, 1). */
export function uniform(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
