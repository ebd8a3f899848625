import { BackendError } from '@shardwise/core/spec';
import type { Arena } from '../../memory/arena.ts';
import { linkConvolution } from './convolution.ts';
import { linkElementwise } from './elementwise.ts';
import { linkMatmul } from './matmul.ts';
import { linkMovement } from './movement.ts';
import { linkMax } from './max.ts';
import type { RunLoop } from './run-loop.ts';
import { linkArgSort } from './arg-sort.ts';
import { linkWhere } from './where.ts';
import type { PlannedLoop } from '../../plan/partition/fallback-engine.ts';

/** Links the loop of a step. Throws BackendError for a step that JavaScript loops cannot compute. */
export function linkLoop(arena: Arena, { step, inputs }: PlannedLoop): RunLoop {
  switch (step.op) {
    case 'sin':
    case 'cos':
    case 'atan':
    case 'pow':
    case 'fmod':
      if (step.dtype !== 'f32' && step.dtype !== 'i32') break;
      return linkElementwise(arena, step, inputs);
    case 'where':
      return linkWhere(arena, step, inputs);
    case 'reshape':
    case 'permute':
    case 'expand':
    case 'slice':
    case 'pad':
    case 'concat':
      return linkMovement(arena, step, inputs);
    case 'max':
      return linkMax(arena, step, inputs);
    case 'argSort':
      return linkArgSort(arena, step, inputs);
    case 'matmul':
      if (step.dtype !== 'i32') break;
      return linkMatmul(arena, step, inputs);
    case 'conv2d':
    case 'conv2dInput':
    case 'conv2dWeight':
      if (step.dtype !== 'f32') break;
      return linkConvolution(arena, step, inputs);
    default:
  }
  const types = [...inputs, step].map(({ dtype }) => dtype);
  throw new BackendError(
    {
      asked: `to compute with ${[...new Set(types)].join(', ')} in ${step.op}`,
      found: 'the CPU backend computes with f32, i32 and bool, and moves and converts the others',
      todo: 'Convert to f32 first',
    },
    { op: step.op, dtype: step.dtype },
  );
}
