import type { PagedInstruction } from '../../program/attention-instructions.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import { byteLengthOf, type CpuProgram, inputAt, valueAt } from '../../program/instruction.ts';
import {
  type PagedAttentionWork,
  type StoredBlocks,
  wholeHeads,
} from '../../program/work/attention-work.ts';

/** Describes attention whose keys and values lie in blocks. All of its operands lie in memory. */
export function pagedWorkOf(
  instruction: PagedInstruction,
  { values, inputCount }: Pick<CpuProgram, 'values' | 'inputCount'>,
  flow: Dataflow,
): PagedAttentionWork {
  const placeOf = (index: number): number => {
    const root = flow.root(inputAt(instruction, index));
    if (root === undefined) throw new RangeError(`input ${index} is not in memory`);
    return root;
  };
  const shapeAt = (index: number): readonly number[] =>
    valueAt(values, inputAt(instruction, index)).shape;
  /** Bytes have scales, which are the input of the second number. */
  const storedAt = (index: number, ofScales: number): StoredBlocks => {
    const { dtype } = valueAt(values, inputAt(instruction, index));
    const value = placeOf(index);
    if (dtype === 'u8') return { dtype, value, scales: placeOf(ofScales) };
    if (dtype === 'f32') return { dtype, value };
    if (dtype === 'bf16' || dtype === 'f16') return { dtype, value };
    throw new RangeError(`blocks of ${dtype}`);
  };
  const [batch = 0, heads = 0, queries = 0, width = 0] = shapeAt(0);
  const [blockCount = 0, blockSize = 0, groups = 0] = shapeAt(1);
  const [, , , valueWidth = 0] = shapeAt(2);
  const [, blocksOfItem = 0] = shapeAt(3);
  const { output, params } = instruction;
  return {
    kind: 'paged',
    batch,
    heads,
    groups,
    queries,
    width,
    valueWidth,
    blockCount,
    blocksOfItem,
    blockSize,
    params,
    q: { value: placeOf(0), packing: 'f32', ...wholeHeads(heads, queries, width) },
    y: {
      value: output,
      isNarrow: false,
      byteLength: byteLengthOf(instruction),
      ...wholeHeads(heads, queries, valueWidth),
    },
    keys: storedAt(1, 5),
    values: storedAt(2, 6),
    table: placeOf(3),
    ranges: placeOf(4),
    instruction: output - inputCount,
  };
}
