import type { Code, FunctionBuilder, Local } from '@shardwise/wasm-assembler';
import { constantBits } from './constant-bits.ts';
import { emitters } from './elementwise-ops.ts';
import type { LoopStep } from './loop-spec.ts';

type Vector = Local<'v128'>;

/** Computes the value of a step from the values in its slots. `index` returns the flat indices of the elements. */
export function stepValue(
  fn: FunctionBuilder,
  step: LoopStep,
  slots: readonly Vector[],
  index: () => Vector,
): Vector {
  if (step.op === 'constant') return constantLanes(fn, step);
  const inputs = step.inputs.map((slot) => slotAt(slots, slot));
  const a = slotAt(inputs, 0);
  if (step.op === 'copy') return a;
  const { op, dtype, inputDType, approximate = 'none' } = step;
  const context = { fn, dtype, inputDType, approximate, index };
  const value: Code<'v128'> = emitters[op](context, a, inputs[1] ?? a, inputs[2] ?? a);
  return fn.let(value);
}

function constantLanes(
  fn: FunctionBuilder,
  { dtype, value }: Extract<LoopStep, { op: 'constant' }>,
): Vector {
  return dtype === 'f32' ? fn.float(value) : fn.int(constantBits(dtype, value));
}

export function slotAt(slots: readonly Vector[], slot: number): Vector {
  const local = slots[slot];
  if (!local) throw new RangeError(`A loop step reads slot ${slot} of ${slots.length}.`);
  return local;
}
