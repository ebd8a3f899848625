import type { Instruction } from '@shardwise/core/spec';
import { isRowInstruction, keepsRows } from '../kernels/rows.ts';
import type { BufferCount } from './buffer-count.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';

/** Ops that read the elements of their inputs again and again, so the inputs are computed beforehand. */
const rereading: ReadonlySet<string> = new Set<Instruction['op']>([
  'argSort',
  'cumsum',
  'matmul',
  'groupedMatmul',
  'groupedMatmulWeight',
  'attention',
  'attentionLogSumExp',
  'attentionQueryGrad',
  'attentionKeyGrad',
  'attentionValueGrad',
  'conv2d',
  'conv2dInput',
  'conv2dWeight',
  'scatterAdd',
  'scatter',
  'indexAdd',
]);
/** Ops that have kernels of their own, so their results lie in memory. */
const withKernels: ReadonlySet<string> = new Set([...rereading, 'sum', 'max', 'argMax']);
const free: ReadonlySet<string> = new Set<Instruction['op']>([
  'reshape',
  'permute',
  'expand',
  'slice',
  'constant',
  'iota',
]);

/** Whether computing an element costs no more than reading one. */
function isFree(instruction: Instruction | undefined, values: Values): boolean {
  if (instruction === undefined || free.has(instruction.op)) return true;
  // Elements of 8 or 16 bits are widened where they are read.
  if (instruction.op !== 'cast') return false;
  const { dtype } = values.type(inputAt(instruction, 0));
  return dtype === 'f16' || dtype === 'bf16' || dtype === 'bool' || dtype === 'u8';
}

export interface MaterialiseOptions {
  /** The values that must lie in memory, whoever reads them. They are outputs and updates. */
  readonly roots: ReadonlySet<number>;
  /** The most buffers that one kernel may read. */
  readonly mostReads: number;
  readonly buffers: BufferCount;
}

/**
 * Chooses the values that lie in memory. All others are computed where they are read, which are values that cost
 * nothing, and values of which one kernel reads each element once. `needed` are the values that roots depend on, in the
 * order of the program.
 */
export function materialised(
  values: Values,
  needed: readonly number[],
  { roots, mostReads, buffers }: MaterialiseOptions,
): ReadonlySet<number> {
  const inMemory = new Set<number>();
  for (let id = 0; id < values.inputCount; id++) inMemory.add(id);
  const readers = countReaders(values, needed);
  const reads = new Map<number, ReadonlySet<number>>();
  const readsOf = (id: number): ReadonlySet<number> =>
    inMemory.has(id) ? new Set([id]) : (reads.get(id) ?? new Set());
  for (const id of needed) {
    const instruction = values.instruction(id);
    if (instruction === undefined) continue;
    const isRow = isRowInstruction(instruction);
    if (rereading.has(instruction.op) || (isRow && !keepsRows(instruction.shape))) {
      for (const [place, input] of instruction.inputs.entries()) {
        materialiseBase(input, instruction.op === 'attention' && (place === 1 || place === 2));
      }
    } else if (instruction.op === 'expand') {
      const input = inputAt(instruction, 0);
      const grows = countOf(values.shape(input)) < countOf(instruction.shape);
      if (grows) materialiseBase(input);
    } else if (instruction.op === 'gather' || instruction.op === 'indexSelect') {
      materialiseBase(inputAt(instruction, 0));
    }
    const union = (): Set<number> =>
      new Set(instruction.inputs.flatMap((input) => [...readsOf(input)]));
    // The inputs that read most buffers go to memory, until the kernel can read the rest.
    const candidates = instruction.inputs
      .filter((input) => !inMemory.has(input))
      .toSorted((a, b) => readsOf(b).size - readsOf(a).size);
    for (const input of candidates) {
      if (buffers(union()) <= mostReads) break;
      inMemory.add(input);
    }
    reads.set(id, union());
    const isShared = (readers.get(id) ?? 0) > 1 && !isFree(instruction, values);
    if (isRow || withKernels.has(instruction.op) || roots.has(id) || isShared) inMemory.add(id);
  }
  return inMemory;

  /**
   * Puts the base of a view into memory. The views of that base stay views. Rows that a table of numbers selects are
   * such a view, too, `throughTables`: attention reads the blocks of a paged cache where they lie.
   */
  function materialiseBase(id: number, throughTables = false): void {
    const instruction = values.instruction(id);
    if (instruction === undefined || inMemory.has(id)) return;
    const isTable = throughTables && instruction.op === 'indexSelect';
    if (isTable || isFree(instruction, values)) {
      for (const input of instruction.inputs) materialiseBase(input, throughTables && !isTable);
    } else {
      inMemory.add(id);
    }
  }
}

/** How many instructions read each value, directly or through ops that cost nothing. */
function countReaders(values: Values, needed: readonly number[]): ReadonlyMap<number, number> {
  const readers = new Map<number, number>();
  const count = (id: number): void => {
    readers.set(id, (readers.get(id) ?? 0) + 1);
    const instruction = values.instruction(id);
    if (instruction !== undefined && isFree(instruction, values)) instruction.inputs.forEach(count);
  };
  for (const id of needed) {
    const instruction = values.instruction(id);
    if (instruction === undefined || isFree(instruction, values)) continue;
    new Set(instruction.inputs).forEach(count);
  }
  return readers;
}
