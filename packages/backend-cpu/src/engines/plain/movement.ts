import { dtypes, type ValueType } from '@shardwise/core/spec';
import { elementCount } from '@shardwise/core/base';
import { byteLengthOf, inputAt, type InstructionMap } from '../../program/instruction.ts';
import { libraryOf } from '../../emit/wasm/kernel-library.ts';
import { rowCopyKernel, rowCopyKey, rowCopyOf } from '../../emit/wasm/move/row-copy.ts';
import { permutedView, slicedView, type View, wholeView } from '../../program/view.ts';
import type { LinkLoop, RunLoop } from './run-loop.ts';
import { viewAt } from './view-at.ts';

type Movement = 'reshape' | 'permute' | 'expand' | 'slice' | 'pad' | 'concat';

/** A copy of elements of an input. The views say where they lie, and where they go to. */
interface Copy {
  readonly input: number;
  readonly from: View;
  readonly to: View;
}

/** Moves elements of any size. Each movement is one copy of a box of elements, or several. */
export const linkMovement: LinkLoop<Movement> = ({ memory }, instruction, inputs) => {
  const library = libraryOf(memory);
  const { bytes } = dtypes[instruction.dtype];
  const copies = copiesOf(instruction, inputs).map(({ input, from, to }): RunLoop => {
    const { loops, sizes, sourceBytes, targetBytes } = rowCopyOf(from, to, bytes);
    const kernel = library.kernel(rowCopyKey(loops), () => rowCopyKernel(loops));
    return (addressOf) => {
      kernel(...sizes, addressOf(input) + sourceBytes, addressOf(instruction.output) + targetBytes);
    };
  });
  const fill = instruction.op === 'pad' ? filling(memory, instruction) : null;
  return (addressOf) => {
    fill?.(addressOf);
    for (const copy of copies) copy(addressOf);
  };
};

function copiesOf(
  instruction: InstructionMap[Movement],
  inputs: readonly ValueType[],
): readonly Copy[] {
  const whole = wholeView(instruction.shape);
  const from = inputs.map(({ shape }) => wholeView(shape));
  const [first = whole] = from;
  const input = inputAt(instruction, 0);
  switch (instruction.op) {
    case 'reshape':
      return [{ input, from: whole, to: whole }];
    case 'permute':
      return [{ input, from: permutedView(first, instruction.params.order), to: whole }];
    case 'expand':
      return [{ input, from: expandedView(first, instruction.shape), to: whole }];
    case 'slice':
      return [{ input, from: steppedView(first, instruction), to: whole }];
    case 'pad': {
      const shape = first.dims.map(({ size }) => size);
      return [{ input, from: first, to: slicedView(whole, instruction.params.before, shape) }];
    }
    default: {
      let start = 0;
      const { dim } = instruction.params;
      return from.map((view, index) => {
        const shape = view.dims.map(({ size }) => size);
        const starts = shape.map((_, own) => (own === dim ? start : 0));
        start += shape[dim] ?? 0;
        return {
          input: inputAt(instruction, index),
          from: view,
          to: slicedView(whole, starts, shape),
        };
      });
    }
  }
}

function expandedView({ elementOffset, dims }: View, shape: readonly number[]): View {
  return {
    elementOffset,
    dims: dims.map(({ size, stride }, dim) => {
      const wanted = shape[dim] ?? size;
      return { size: wanted, stride: size === wanted ? stride : 0 };
    }),
  };
}

function steppedView(view: View, { params, shape }: InstructionMap['slice']): View {
  const { elementOffset, dims } = slicedView(view, params.starts, shape);
  return {
    elementOffset,
    dims: dims.map(({ size, stride }, dim) => ({
      size,
      stride: stride * (params.steps[dim] ?? 1),
    })),
  };
}

function filling(memory: WebAssembly.Memory, instruction: InstructionMap['pad']): RunLoop {
  const count = elementCount(instruction.shape);
  const { dtype, output } = instruction;
  const { value } = instruction.params;
  if (dtype === 'i64') {
    return (addressOf) => viewAt(memory, dtype, addressOf(output), count).fill(BigInt(value));
  }
  if (dtype === 'f16' || dtype === 'bf16') {
    const [bits = 0] = dtype === 'f16' ? new Uint16Array(Float16Array.of(value).buffer) : [];
    const upper = new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
    const element = dtype === 'f16' ? bits : upper >>> 16;
    return (addressOf) => viewAt(memory, dtype, addressOf(output), count).fill(element);
  }
  if (value === 0 && !Object.is(value, -0)) {
    const byteLength = byteLengthOf(instruction);
    return (addressOf) => new Uint8Array(memory.buffer, addressOf(output), byteLength).fill(0);
  }
  return (addressOf) => viewAt(memory, dtype, addressOf(output), count).fill(value);
}
