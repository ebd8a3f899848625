import type { Backend, Program } from '@shardwise/core/spec';
import { assertAllclose } from '../../compare/allclose.ts';
import { interpreter } from '../../interpreter/interpreter.ts';
import { NdArray } from '../../interpreter/nd-array.ts';
import { evaluate, pick } from './device.ts';
import type { OpCase } from './op-case.ts';
import { ProgramBuilder } from './program-builder.ts';

/** Returns the op as a program of one instruction. */
export function programOf({ operation, inputs, expected }: OpCase): Program {
  const builder = new ProgramBuilder();
  const ids = inputs.map(({ shape, dtype }) => builder.input(shape, dtype));
  return builder.build(builder.op(operation, ids, expected.shape, expected.dtype));
}

/** Throws if the backend's result is not the expected one. */
export async function runCase(backend: Backend, opCase: OpCase): Promise<void> {
  const { inputs, expected, tolerance } = opCase;
  const program = programOf(opCase);
  const actual = pick((await evaluate(backend, program, inputs)).outputs, 0);
  const wanted =
    expected instanceof NdArray
      ? expected
      : pick((await evaluate(interpreter(), program, inputs)).outputs, 0);
  assertAllclose(actual, wanted, { rtol: 0, atol: 0, ...tolerance });
}
