import type { Backend, DeviceBuffer, Instruction, Program, ValueType } from '@shardwise/core/spec';

/** An f32 type of this shape. */
export function f32(...shape: number[]): ValueType {
  return { shape, dtype: 'f32' };
}

/** A program whose missing parts are empty. */
export function programOf(parts: {
  readonly inputs?: readonly ValueType[];
  readonly instructions?: readonly Instruction[];
  readonly outputs?: readonly number[];
  readonly updates?: Program['updates'];
}): Program {
  return { inputs: [], instructions: [], outputs: [], updates: [], ...parts };
}

export function binary(
  op: 'add' | 'sub' | 'mul' | 'div',
  a: number,
  b: number,
  type: ValueType,
): Instruction {
  return { op, params: {}, inputs: [a, b], ...type };
}

export function unary(op: 'neg' | 'exp' | 'sqrt' | 'sin', x: number, type: ValueType): Instruction {
  return { op, params: {}, inputs: [x], ...type };
}

export function matmul(a: number, b: number, type: ValueType): Instruction {
  return {
    op: 'matmul',
    params: { transposeA: false, transposeB: false },
    inputs: [a, b],
    ...type,
  };
}

export function constant(value: number, type: ValueType): Instruction {
  return { op: 'constant', params: { value, ...type }, inputs: [], ...type };
}

export function bytesOf(values: readonly number[]): Uint8Array {
  return new Uint8Array(Float32Array.from(values).buffer);
}

export function upload(backend: Backend, values: readonly number[]): DeviceBuffer {
  const buffer = backend.alloc(values.length * 4);
  backend.write(buffer, bytesOf(values));
  return buffer;
}

export async function download(backend: Backend, buffer: DeviceBuffer): Promise<number[]> {
  const bytes = await backend.read(buffer);
  return [...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)];
}
