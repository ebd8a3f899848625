import type { Instruction } from '@shardwise/core/spec';
import type { Kernel } from '../emit/kernel.ts';
import { countOf, inputAt, type Values } from '../program/values.ts';

export type IndexingInstruction = Extract<
  Instruction,
  { op: 'gather' | 'scatterAdd' | 'scatter' | 'indexSelect' | 'indexAdd' }
>;

const indexing: ReadonlySet<string> = new Set<IndexingInstruction['op']>([
  'gather',
  'scatterAdd',
  'scatter',
  'indexSelect',
  'indexAdd',
]);

export function isIndexing(instruction: Instruction): instruction is IndexingInstruction {
  return indexing.has(instruction.op);
}

/**
 * The words that a check writes: one more than the number of the first element that is out of range (0 if there is
 * none), and its index. The very first word of all checks says whether there is one.
 */
export const CHECK_WORDS = 2;

const LANES = 256;

/**
 * Looks for the first index that is out of range. One group of threads looks at all indices, so that it can tell which
 * is first.
 */
export function checkIndices(
  values: Values,
  instruction: IndexingInstruction,
  number: number,
  faults: number,
  reads: readonly number[],
): Kernel {
  const [x, index] = [inputAt(instruction, 0), inputAt(instruction, 1)];
  const size = values.shape(x)[instruction.params.dim] ?? 0;
  const count = countOf(values.shape(index));
  return {
    label: `indices of ${instruction.op}`,
    reads,
    writes: [faults],
    workgroup: [LANES, 1],
    groups: [1, 1, 1],
    check: number,
    numbers: [count, number],
    shared: 'var<workgroup> least: atomic<u32>;',
    body: ({ emitter, place, number: numberOf }) => {
      emitter.line('if (thread.x == 0u) { atomicStore(&least, 0xffffffffu); }');
      emitter.line('workgroupBarrier();');
      const inner = emitter.inner();
      const at = inner.value(index, { linear: 'element' });
      inner.line(`if (bitcast<u32>(${at}) >= ${size}u) { atomicMin(&least, element); }`);
      emitter.line(
        `for (var element = thread.x; element < ${numberOf(0)}; element += ${LANES}u) {\n${inner.text}\n}`,
      );
      emitter.line('workgroupBarrier();');
      emitter.line('let bad = atomicLoad(&least);');
      emitter.line('if (thread.x != 0u || bad == 0xffffffffu) { return; }');
      const { write } = place(faults);
      const first = emitter.let(`1u + ${numberOf(1)} * ${CHECK_WORDS}u`);
      emitter.line(write('0u', '1u'));
      emitter.line(write(first, 'bad + 1u'));
      const found = emitter.inner();
      const element = found.value(index, { linear: 'bad' });
      found.line(write(`${first} + 1u`, `bitcast<u32>(${element})`));
      emitter.line(found.text);
    },
  };
}
