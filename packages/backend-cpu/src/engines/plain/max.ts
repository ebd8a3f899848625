import { elementCount } from '@shardwise/core/base';
import { inputAt } from '../../program/instruction.ts';
import type { LinkLoop } from './run-loop.ts';
import { viewAt } from './view-at.ts';

/** The smallest value of each dtype that kernels compute with. */
const least = { f32: -Infinity, i32: -(2 ** 31), bool: 0 } as const;

/** Computes the largest element over any dims. The result is NaN if there is a NaN. */
export const linkMax: LinkLoop<'max'> = ({ memory }, instruction, inputs) => {
  const shape = inputs[0]?.shape ?? [];
  const dtype =
    instruction.dtype === 'i32' || instruction.dtype === 'bool' ? instruction.dtype : 'f32';
  const { dims } = instruction.params;
  const input = inputAt(instruction, 0);
  const last = shape.length - 1;
  const row = shape[last] ?? 1;
  const rows = elementCount(shape.slice(0, -1));
  // For each dim of the input, how many elements an instruction along it moves in the result. It is 0 for dims that are
  // reduced.
  let stride = 1;
  const strides = shape
    .map((size, dim) => [size, dim] as const)
    .toReversed()
    .map(([size, dim]) => {
      if (dims.includes(dim)) return 0;
      const own = stride;
      stride *= size;
      return own;
    })
    .toReversed();
  const along = strides[last] ?? 0;
  return (addressOf) => {
    const from = viewAt(memory, dtype, addressOf(input), elementCount(shape));
    const to = viewAt(
      memory,
      dtype,
      addressOf(instruction.output),
      elementCount(instruction.shape),
    );
    to.fill(least[dtype]);
    const place = shape.slice(0, -1).fill(0);
    let target = 0;
    for (let first = 0; first < rows; first++) {
      for (let column = 0; column < row; column++) {
        const value = from[first * row + column] ?? 0;
        const at = target + column * along;
        const most = to[at] ?? 0;
        if (value > most || value !== value) to[at] = value;
      }
      for (let dim = last - 1; dim >= 0; dim--) {
        const size = shape[dim] ?? 1;
        const next = (place[dim] ?? 0) + 1;
        target += strides[dim] ?? 0;
        place[dim] = next;
        if (next < size) break;
        place[dim] = 0;
        target -= size * (strides[dim] ?? 0);
      }
    }
  };
};
