import { dtypes, type Instruction, type Shape, type ValueType } from '@shardwise/core/spec';
import type { IndexRange, RowKernel } from '../rows/row-kernel.ts';
import { addRows, selectRows } from './select-and-add-rows.ts';
import type { ElementBytes } from './copy-element.ts';
import { elementPlaces } from './element-places.ts';
import type { Start } from './start.ts';
import { elementCount } from '@shardwise/core/base';
import { gather, scatter, scatterAdd } from './gather-scatter.ts';

/** The kernel of an op with indices. */
export interface IndexKernel extends RowKernel {
  readonly indices: IndexRange;
  /** Whether the kernel makes the zeros itself that are the instruction's first input. */
  readonly makesZeros: boolean;
}

/**
 * Returns the kernel of an instruction that reads indices. Returns undefined for other instructions. `inputs` are the
 * types of x, of the indices and perhaps of a source. `xIsZero` says that all elements of x are 0.
 */
export function indexKernel(
  instruction: Instruction,
  inputs: readonly ValueType[],
  xIsZero: boolean,
): IndexKernel | undefined {
  const { op } = instruction;
  if (
    op !== 'gather' &&
    op !== 'scatterAdd' &&
    op !== 'scatter' &&
    op !== 'indexSelect' &&
    op !== 'indexAdd'
  ) {
    return undefined;
  }
  const [x, index] = inputs;
  const { dim } = instruction.params;
  if (x === undefined || index === undefined || index.dtype !== 'i32') return undefined;
  const makesZeros = xIsZero && (op === 'scatterAdd' || op === 'indexAdd');
  const indices = { op, size: x.shape[dim] ?? 0, input: makesZeros ? 0 : 1 };
  const elementBytes = dtypes[x.dtype].bytes;
  if (op === 'gather') {
    const { loops, sizes } = elementPlaces(x.shape, index.shape, dim, elementBytes);
    const key = `gather ${loops} ${elementBytes}`;
    const build = () => gather(loops, elementBytes);
    return { key, sizes, build, indices, makesZeros };
  }
  const [outer, inner] = around(x.shape, dim);
  const count = elementCount(index.shape);
  if (op === 'indexSelect') {
    const rowBytes = inner * elementBytes;
    const single = isElementBytes(rowBytes) ? rowBytes : undefined;
    return {
      key: `select rows ${single}`,
      sizes: [outer, indices.size, count, rowBytes],
      build: () => selectRows(single),
      indices,
      makesZeros,
    };
  }
  if (op === 'scatter') {
    const { loops, sizes } = elementPlaces(x.shape, index.shape, dim, elementBytes);
    return {
      key: `scatter ${loops} ${elementBytes}`,
      sizes: [...sizes, elementCount(x.shape) * elementBytes],
      build: () => scatter(loops, elementBytes),
      indices,
      makesZeros,
    };
  }
  const { dtype } = x;
  if (dtype !== 'f32' && dtype !== 'i32') return undefined;
  const start: Start = makesZeros ? 'zeros' : 'copy';
  const byteLength = elementCount(x.shape) * elementBytes;
  if (op === 'indexAdd') {
    return {
      key: `add rows ${dtype} ${start}`,
      sizes: [outer, indices.size, count, inner, byteLength],
      build: () => addRows(dtype, start),
      indices,
      makesZeros,
    };
  }
  const { loops, sizes } = elementPlaces(x.shape, index.shape, dim, elementBytes);
  return {
    key: `scatter add ${loops} ${dtype} ${start}`,
    sizes: [...sizes, byteLength],
    build: () => scatterAdd(loops, dtype, start),
    indices,
    makesZeros,
  };
}

/** The number of elements in the dims before a dim, and in the dims behind it. */
function around(shape: Shape, dim: number): readonly [outer: number, inner: number] {
  return [elementCount(shape.slice(0, dim)), elementCount(shape.slice(dim + 1))];
}

function isElementBytes(bytes: number): bytes is ElementBytes {
  return bytes === 1 || bytes === 2 || bytes === 4 || bytes === 8;
}
