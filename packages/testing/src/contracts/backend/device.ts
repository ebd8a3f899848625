import type {
  Backend,
  DeviceBuffer,
  Executable,
  Program,
  SizedProgram,
  Sizes,
  ValueType,
} from '@shardwise/core/spec';
import { byteLength } from '../../interpreter/nd-array.ts';
import type { NdArray } from '../../interpreter/nd-array.ts';
import { load, store } from '../../interpreter/storage.ts';

export function toBytes(value: NdArray): Uint8Array {
  const bytes = new Uint8Array(byteLength(value));
  store(value, bytes);
  return bytes;
}

export function upload(backend: Backend, value: NdArray): DeviceBuffer {
  const buffer = backend.alloc(byteLength(value));
  backend.write(buffer, toBytes(value));
  return buffer;
}

export async function download(
  backend: Backend,
  buffer: DeviceBuffer,
  type: ValueType,
): Promise<NdArray> {
  // The result of read may be a view at any offset. The copy is aligned.
  return load(Uint8Array.from(await backend.read(buffer)), type);
}

/** Returns the type of a value id of a program. */
export function typeOf(program: Program, id: number): ValueType {
  const type = [...program.inputs, ...program.instructions][id];
  if (type === undefined) throw new RangeError(`no value ${id}`);
  return type;
}

/** The results of running a program. */
export interface Evaluated {
  readonly outputs: readonly NdArray[];
  /** The contents of the inputs after the run: their updates, or their former contents. */
  readonly inputs: readonly NdArray[];
}

/** Runs a program once, in its own memory, and frees this memory. */
export async function evaluate(
  backend: Backend,
  program: Program,
  inputs: readonly NdArray[],
): Promise<Evaluated> {
  const executable = await backend.compile(program);
  const evaluated = await run(backend, executable, program, inputs);
  executable.dispose();
  return evaluated;
}

/** Runs an executable of a program in its own memory, and frees this memory. */
export async function run(
  backend: Backend,
  executable: Executable,
  program: Program,
  inputs: readonly NdArray[],
  sizes: Sizes = [],
): Promise<Evaluated> {
  const outputTypes = program.outputs.map((id) => typeOf(program, id));
  const sources = inputs.map((input) => upload(backend, input));
  const results = outputTypes.map((type) => backend.alloc(byteLength(type)));
  await executable.run(sources, results, { sizes });
  const readAll = (buffers: readonly DeviceBuffer[], types: readonly ValueType[]) =>
    Promise.all(types.map((type, i) => download(backend, pick(buffers, i), type)));
  const evaluated = {
    outputs: await readAll(results, outputTypes),
    inputs: await readAll(sources, program.inputs),
  };
  for (const buffer of [...sources, ...results]) backend.free(buffer);
  return evaluated;
}

/**
 * Compiles a program for all sizes. Throws if the backend cannot compile it, although its structure is the same at all
 * sizes.
 */
export async function compileSized(backend: Backend, program: SizedProgram): Promise<Executable> {
  const executable = await backend.compileSized?.(program);
  if (executable === undefined) throw new Error('compileSized gave no executable');
  return executable;
}

export function reasonNotSized(backend: Backend): string | undefined {
  return backend.compileSized === undefined ? 'it compiles programs for each size' : undefined;
}

export function pick<T>(list: readonly T[], i: number): T {
  const item = list[i];
  if (item === undefined) throw new RangeError(`item ${i} of ${list.length}`);
  return item;
}
