import { readFileSync } from 'node:fs';
import { dynamic, fromData, tensor, type Operand, Tensor } from '@shardwise/core';
import { z } from 'zod';
import { operations, type Call } from './program-operations.ts';

const recorded = z.object({
  in: z.array(z.string()),
  do: z.array(z.string()),
  roots: z.string(),
  reads: z.string(),
  out: z.array(z.string()),
  grad: z.array(z.string()),
});

/** A program in the notation of tools/golden-programs.py, and the results of PyTorch. */
export type RecordedProgram = z.infer<typeof recorded>;

const sizedPrograms = z.object({
  programs: z.array(
    recorded
      .pick({ do: true, roots: true, reads: true })
      .extend({ runs: z.array(recorded.pick({ in: true, out: true, grad: true })) }),
  ),
});

/**
 * Reads programs that were recorded at several sizes. Returns one program for each size. The first sizes of a program
 * are all different and above 1.
 */
export function readSizedPrograms(file: URL | string): readonly (readonly RecordedProgram[])[] {
  const contents: unknown = JSON.parse(readFileSync(file, 'utf8'));
  const { programs } = sizedPrograms.parse(contents);
  return programs.map(({ runs, ...program }) => runs.map((run) => ({ ...program, ...run })));
}

export function readPrograms(file: URL | string): readonly RecordedProgram[] {
  const contents: unknown = JSON.parse(readFileSync(file, 'utf8'));
  return z.object({ torch: z.string(), programs: z.array(recorded) }).parse(contents).programs;
}

/**
 * Returns the differences from PyTorch's results when the program runs on this rank's device. With `anySize`, the sizes
 * of its inputs are declared to vary, so that it runs with a plan for any size.
 */
export async function differences(program: RecordedProgram, anySize = false): Promise<string[]> {
  const inputs = program.in.map((line) => declare(line, anySize));
  const values = valuesOf(program, inputs);
  const roots = numbers(program.roots).map((id) => at(values, id));
  for (const root of roots) root.sum().backward();
  const found: string[] = [];
  const compare = async (name: string, value: Tensor | null, expected: string): Promise<void> => {
    const elements = value === null ? null : Array.from(await value.data(), Number);
    const difference = describeDifference(elements, expected);
    if (difference !== undefined) found.push(`${name}: ${difference}`);
  };
  const reads = numbers(program.reads).map((id) => at(values, id));
  const ids = [...numbers(program.roots), ...numbers(program.reads)];
  for (const [i, value] of [...roots, ...reads].entries()) {
    await compare(`value ${ids[i]}`, value, program.out[i] ?? '');
  }
  const trained = inputs.filter(({ requiresGrad }) => requiresGrad);
  for (const [i, input] of trained.entries()) {
    await compare(`gradient ${i}`, input.grad, program.grad[i] ?? '');
  }
  return found;
}

/** Returns the inputs, followed by the result of each line. */
function valuesOf(program: RecordedProgram, inputs: readonly Tensor[]): Tensor[] {
  const values = [...inputs];
  for (const line of program.do) values.push(compute(line, values));
  return values;
}

/** Returns the program's roots, followed by its reads. */
export function resultsOf(program: RecordedProgram, inputs: readonly Tensor[]): Tensor[] {
  const values = valuesOf(program, inputs);
  return [...numbers(program.roots), ...numbers(program.reads)].map((id) => at(values, id));
}

/** An input of a program: its values, and whether its gradient is requested. */
export interface ProgramInput {
  readonly dtype: 'f32' | 'i32' | 'bool';
  readonly shape: readonly number[];
  readonly elements: readonly number[];
  readonly isTrained: boolean;
}

export function readInput(line: string): ProgramInput {
  const [head = '', body = ''] = line.split(': ');
  const [dtype, shape = '.', flag] = head.split(' ');
  if (dtype !== 'f32' && dtype !== 'i32' && dtype !== 'bool') throw new TypeError(line);
  const elements = body === '' ? [] : body.split(' ').map(element);
  return { dtype, shape: dims(shape), elements, isTrained: flag === 'g' };
}

function declare(line: string, anySize: boolean): Tensor {
  const { dtype, shape, elements, isTrained } = readInput(line);
  const x = written(elements, shape, dtype, isTrained || anySize);
  for (const [dim, size] of x.shape.entries()) {
    if (anySize && size > 1) dynamic(x, dim, { max: Math.max(16, 2 * size) });
  }
  return isTrained ? x.requiresGrad_() : x;
}

/** Makes a tensor from elements. If `isLeaf`, its sizes can be declared and its gradient is kept. */
function written(
  elements: readonly number[],
  shape: readonly number[],
  dtype: ProgramInput['dtype'],
  isLeaf: boolean,
): Tensor {
  if (!isLeaf) return tensor(elements, dtype).reshape(shape);
  return dtype === 'f32'
    ? fromData(Float32Array.from(elements), shape, dtype)
    : tensor(nested(elements, shape), dtype);
}

type Nested = number | readonly Nested[];

function nested(elements: readonly number[], [size, ...rest]: readonly number[]): Nested {
  if (size === undefined) return elements[0] ?? 0;
  const part = elements.length / size;
  return Array.from({ length: size }, (_, i) =>
    nested(elements.slice(i * part, (i + 1) * part), rest),
  );
}

function compute(line: string, values: readonly Tensor[]): Tensor {
  const [name = '', ...words] = line.split(' ');
  const operation = operations[name];
  if (operation === undefined) throw new TypeError(`no operation ${name}`);
  const parameters = new Map<string, string>();
  const operands: Operand[] = [];
  for (const word of words) {
    const [key = '', value] = word.split('=');
    if (value !== undefined) parameters.set(key, value);
    else operands.push(key.startsWith('#') ? Number(key.slice(1)) : at(values, Number(key)));
  }
  return operation(callOf(operands, parameters));
}

function callOf(operands: readonly Operand[], parameters: ReadonlyMap<string, string>): Call {
  const operand = (index: number): Operand => at(operands, index);
  const text = (name: string): string => {
    const value = parameters.get(name);
    if (value === undefined) throw new TypeError(`no parameter ${name}`);
    return value;
  };
  return {
    count: operands.length,
    operand,
    tensor: (index) => {
      const value = operand(index);
      if (value instanceof Tensor) return value;
      throw new TypeError(`operand ${index} is a number`);
    },
    number: (name) => Number(text(name)),
    list: (name) => dims(text(name)),
    text: (name) => parameters.get(name),
  };
}

function describeDifference(found: readonly number[] | null, text: string): string | undefined {
  if (found === null || text === '-') {
    return found === null && text === '-' ? undefined : `${found?.join(' ')}, and not ${text}`;
  }
  const expected = text === '' ? [] : text.split(' ').map(element);
  const size = Math.max(...expected.filter(Number.isFinite).map(Math.abs), 0.05);
  const isClose = expected.every((value, i) => {
    const other = found[i] ?? Number.NaN;
    if (!Number.isFinite(value)) return Object.is(other, value);
    return Math.abs(other - value) <= 2e-5 * size;
  });
  return isClose && found.length === expected.length
    ? undefined
    : `${found.join(' ')}, and not ${text}`;
}

function element(text: string): number {
  return Number(text.replace('inf', 'Infinity').replace('nan', 'NaN'));
}

function dims(text: string): number[] {
  return text === '.' ? [] : text.split('x').map(Number);
}

function numbers(text: string): number[] {
  return text === '' ? [] : text.split(' ').map(Number);
}

function at<T>(list: readonly T[], index: number): T {
  const item = list[index];
  if (item === undefined) throw new RangeError(`item ${index} of ${list.length}`);
  return item;
}
