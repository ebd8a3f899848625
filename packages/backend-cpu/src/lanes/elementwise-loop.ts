import { FunctionBuilder, type Local } from '@shardwise/wasm-assembler';
import type { LoopSpec } from './loop-spec.ts';
import { slotAt, stepValue } from './step-value.ts';
import { type LaneInput, type LaneLoop, laneInput } from './lane-loop.ts';

/** A fused loop in terms of lanes. Its operands are the loads, then the stores. */
export function elementwiseLoop({ loads, steps, stores }: LoopSpec): LaneLoop {
  const fn = new FunctionBuilder(0);
  const inputs: LaneInput[] = loads.map((_, operand) => ({ kind: 'operand', operand }));
  const slots: Local<'v128'>[] = inputs.map((_, input) => fn.let(laneInput(input)));
  const index = (): Local<'v128'> => fn.let(laneInput(inputs.push({ kind: 'index' }) - 1));
  for (const step of steps) slots.push(stepValue(fn, step, slots, index));
  return {
    operands: [
      ...loads,
      ...stores.map(({ dtype }) => ({ dtype, access: 'element', elementOffset: 0 }) as const),
    ],
    inputs,
    before: [],
    passes: [
      {
        stores: stores.map(({ slot }, store) => ({
          operand: loads.length + store,
          value: slotAt(slots, slot),
        })),
        folds: [],
      },
    ],
  };
}
