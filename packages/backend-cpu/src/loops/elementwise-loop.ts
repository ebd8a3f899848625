import { type Code, FunctionBuilder, i32x4, type Local } from '@shardwise/wasm-assembler';
import { constantBits } from '../wasm/constant-bits.ts';
import { emitters } from '../wasm/elementwise-ops.ts';
import type { LoopSpec } from '../wasm/loop-spec.ts';
import { type LaneInput, type LaneLoop, laneInput } from './lane-loop.ts';

/** A fused loop in terms of lanes. Operands are its loads, then its stores. */
export function elementwiseLoop({ loads, steps, stores }: LoopSpec): LaneLoop {
  const fn = new FunctionBuilder(0);
  const inputs: LaneInput[] = loads.map((_, operand) => ({ kind: 'operand', operand }));
  const slots: Local<'v128'>[] = inputs.map((_, input) => fn.let(laneInput(input)));
  const at = (slot: number): Local<'v128'> => {
    const local = slots[slot];
    if (local === undefined) throw new RangeError(`a step reads slot ${slot} of ${slots.length}`);
    return local;
  };
  const index = (): Local<'v128'> => fn.let(laneInput(inputs.push({ kind: 'index' }) - 1));
  const valueOf = (step: LoopSpec['steps'][number]): Code<'v128'> => {
    const { dtype } = step;
    if (step.op === 'constant') {
      const { value } = step;
      return dtype === 'f32' ? fn.float(value) : i32x4.const(constantBits(dtype, value));
    }
    const [a = 0, b = a, c = a] = step.inputs;
    if (step.op === 'copy') return at(a);
    const { op, inputDType, approximate = 'none' } = step;
    const context = { fn, dtype, inputDType, approximate, index };
    return emitters[op](context, at(a), at(b), at(c));
  };
  for (const step of steps) slots.push(fn.let(valueOf(step)));
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
          value: at(slot),
        })),
        folds: [],
      },
    ],
  };
}
