import { BackendError } from '@shardwise/core/spec';
import type { Arena } from '../../memory/arena.ts';
import { linkConvolution } from './convolution.ts';
import { linkMatmul } from './matmul.ts';
import { linkMovement } from './movement.ts';
import { linkMax } from './max.ts';
import type { RunLoop } from './run-loop.ts';
import { linkArgSort } from './arg-sort.ts';
import type { PlannedLoop } from '../../plan/partition/fallback-engine.ts';
import { linkElementwise, linkWhere } from './elementwise.ts';

/** Links the loop of an instruction. Throws BackendError for an instruction that JavaScript loops cannot compute. */
export function linkLoop(arena: Arena, { instruction, inputs }: PlannedLoop): RunLoop {
  switch (instruction.op) {
    case 'sin':
    case 'cos':
    case 'atan':
    case 'pow':
    case 'fmod':
      if (instruction.dtype !== 'f32' && instruction.dtype !== 'i32') break;
      return linkElementwise(arena, instruction, inputs);
    case 'where':
      return linkWhere(arena, instruction, inputs);
    case 'reshape':
    case 'permute':
    case 'expand':
    case 'slice':
    case 'pad':
    case 'concat':
      return linkMovement(arena, instruction, inputs);
    case 'max':
      return linkMax(arena, instruction, inputs);
    case 'argSort':
      return linkArgSort(arena, instruction, inputs);
    case 'matmul':
      if (instruction.dtype !== 'i32') break;
      return linkMatmul(arena, instruction, inputs);
    case 'conv2d':
    case 'conv2dInput':
    case 'conv2dWeight':
      if (instruction.dtype !== 'f32') break;
      return linkConvolution(arena, instruction, inputs);
    default:
  }
  const types = [...inputs, instruction].map(({ dtype }) => dtype);
  throw new BackendError(
    {
      asked: `to compute with ${[...new Set(types)].join(', ')} in ${instruction.op}`,
      found: 'the CPU backend computes with f32, i32 and bool, and moves and converts the others',
      todo: 'Convert to f32 first',
    },
    { op: instruction.op, dtype: instruction.dtype },
  );
}
