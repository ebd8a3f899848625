import { fromData, setRank } from '@shardwise/core';
import type { Backend, Program } from '@shardwise/core/spec';
import { interpreter } from '@shardwise/testing';
import { expect, it } from 'vitest';
import { ggufFormats } from '../src/quantized/gguf-formats.ts';
import { emptyBlocks, QuantizedLinear } from '../src/quantized/quantized-linear.ts';

/** An interpreter that keeps the programs that it compiles. */
function recording(programs: Program[]): Backend {
  const device = interpreter();
  return {
    ...device,
    compile: (program) => {
      programs.push(program);
      return device.compile(program);
    },
  };
}

function layer(): QuantizedLinear {
  const parts = emptyBlocks(ggufFormats.Q8_0, [32, 32]);
  return new QuantizedLinear({ ...parts, bias: null, isTransposedInFiles: false });
}

it.each(['f32', 'bf16'] as const)(
  'a backward pass decodes the weights again, and nothing of them is kept for it: %s',
  async (dtype) => {
    const programs: Program[] = [];
    setRank({ device: recording(programs) });
    const x = fromData(new Float32Array(4 * 32).fill(1), [4, 32], 'f32').requiresGrad_();
    const [first, second] = [layer(), layer()];
    second
      .forward(first.forward(x.to(dtype)))
      .to('f32')
      .sum()
      .backward();
    await x.grad?.data();
    // A device that decodes whole weights does so twice for each of both layers.
    const decodes = programs.flatMap(({ inputs, instructions }) =>
      instructions.filter(
        ({ op, inputs: [of = -1] }) => op === 'cast' && inputs[of]?.dtype === 'u8',
      ),
    ).length;
    expect(decodes).toBe(4);
  },
);
