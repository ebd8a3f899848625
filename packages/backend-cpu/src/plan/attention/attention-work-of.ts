import { attentionDims, attentionLimits, elementCount } from '@shardwise/core/base';
import type { ValueType } from '@shardwise/core/spec';
import {
  type AttentionResult,
  type AttentionWork,
  type HeadsInMemory,
  type KeyRangesInMemory,
  type MaskInMemory,
  wholeHeads,
} from '../../program/work/attention-work.ts';
import { type AttentionInstruction, isForward } from '../../program/attention-instructions.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import { headViewOf } from './head-views.ts';
import { byteLengthOf, inputAt, valueAt } from '../../program/instruction.ts';

/**
 * Describes the attention that `instructions` compute together. `storedValues` makes sure that their operands lie in
 * memory; queries, keys and values may be views. `bf16` says whether bf16 products are supported.
 */
export function attentionWorkOf(
  instructions: readonly AttentionInstruction[],
  values: readonly ValueType[],
  flow: Dataflow,
  bf16: boolean,
): AttentionWork {
  const [first] = instructions;
  if (first === undefined) throw new RangeError('a partition without instructions');
  const placeOf = (index: number): number => {
    const root = flow.root(inputAt(first, index));
    if (root === undefined) throw new RangeError(`input ${index} of ${first.op} is not in memory`);
    return root;
  };
  const isNarrow = bf16 && first.params.rounding === 'bf16';
  const typeAt = (index: number): ValueType => valueAt(values, inputAt(first, index));
  const headsAt = (index: number): HeadsInMemory => {
    const found = headViewOf(inputAt(first, index), values, (id) => flow.lazy(id));
    if (found === undefined) throw new RangeError(`input ${index} of ${first.op} has no rows`);
    const { elementOffset, dims } = found.view;
    const [item, head, row] = dims;
    return {
      value: found.root,
      packing: typeAt(index).dtype === 'bf16' ? 'bf16' : isNarrow ? 'f32 as bf16' : 'f32',
      elementOffset,
      itemStride: item?.stride ?? 0,
      headStride: head?.stride ?? 0,
      rowStride: row?.stride ?? 0,
    };
  };
  const made = (op: AttentionInstruction['op']): AttentionInstruction | undefined =>
    instructions.find((instruction) => instruction.op === op);
  const gathered = first.op === 'attentionQueryGrad' ? first.params.gathered : undefined;
  const resultOf = (op: AttentionInstruction['op']): AttentionResult | null => {
    const instruction = gathered === undefined ? made(op) : first;
    if (instruction === undefined) return null;
    const [, heads = 1, rows = 1, width = 1] = instruction.shape;
    const places =
      gathered === undefined
        ? wholeHeads(heads, rows, width)
        : gathered.find((gradient) => gradient.op === op);
    if (places === undefined) return null;
    const { elementOffset, itemStride, headStride, rowStride } = places;
    return {
      value: instruction.output,
      isNarrow: instruction.dtype === 'bf16',
      byteLength: byteLengthOf(instruction),
      elementOffset,
      itemStride,
      headStride,
      rowStride,
    };
  };
  // A log-sum-exp that is computed apart from its attention waits for it. The last input is then no operand.
  const waits = first.op === 'attentionLogSumExp' && first.params.waits === true;
  const inputs = first.inputs.map((_, index) => index).slice(0, waits ? -1 : undefined);
  const limits = attentionLimits(first.op, first.params, inputs);
  const maskAt = (index: number): MaskInMemory => {
    const { shape } = typeAt(index);
    const stride = (dim: number): number =>
      shape[dim] === 1 ? 0 : elementCount(shape.slice(dim + 1));
    const [itemStride, headStride, queryStride] = [stride(0), stride(1), stride(2)];
    return { value: placeOf(index), itemStride, headStride, queryStride };
  };
  const rangesAt = (index: number): KeyRangesInMemory => {
    const [items = 1, queries = 0] = typeAt(index).shape;
    return { value: placeOf(index), itemStride: items === 1 ? 0 : 2 * queries };
  };
  const y = resultOf('attention');
  const readsValues = y !== null || !isForward(first);
  const common = {
    ...attentionDims(typeAt(0).shape, typeAt(1).shape, readsValues ? typeAt(2).shape : undefined),
    params: first.params,
    isNarrow,
    q: headsAt(0),
    k: headsAt(1),
    mask: limits.mask === undefined ? null : maskAt(limits.mask),
    keyRanges: limits.ranges === undefined ? null : rangesAt(limits.ranges),
    block: null,
  };
  if (isForward(first)) {
    return {
      ...common,
      kind: 'forward',
      values: y && { v: headsAt(2), y },
      logSumExp: made('attentionLogSumExp')?.output ?? null,
    };
  }
  return {
    ...common,
    kind: 'backward',
    v: headsAt(2),
    dy: headsAt(3),
    logSumExp: placeOf(4),
    delta: placeOf(5),
    dq: resultOf('attentionQueryGrad'),
    dk: resultOf('attentionKeyGrad'),
    dv: resultOf('attentionValueGrad'),
  };
}
