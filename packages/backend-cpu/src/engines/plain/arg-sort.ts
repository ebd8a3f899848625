import { elementCount } from '@shardwise/core/base';
import { inputAt } from '../../program/instruction.ts';
import type { LinkLoop } from './run-loop.ts';
import { viewAt } from './view-at.ts';

/** Sorts each line along a dim. The sort of typed arrays is stable, so equal elements keep their order. */
export const linkArgSort: LinkLoop<'argSort'> = ({ memory }, instruction, inputs) => {
  const { dim, descending } = instruction.params;
  const { shape } = instruction;
  const [x] = inputs;
  const dtype = x?.dtype === 'i32' || x?.dtype === 'bool' ? x.dtype : 'f32';
  const size = shape[dim] ?? 1;
  const inner = elementCount(shape.slice(dim + 1));
  const count = elementCount(shape);
  const line = new Float64Array(size);
  const order = new Int32Array(size);
  const compare = (a: number, b: number): number => ascending(line[a] ?? 0, line[b] ?? 0);
  const direction = descending ? (a: number, b: number): number => -compare(a, b) : compare;
  return (addressOf) => {
    const from = viewAt(memory, dtype, addressOf(inputAt(instruction, 0)), count);
    const to = viewAt(memory, 'i32', addressOf(instruction.output), count);
    for (let first = 0; first < count; first++) {
      // Each line is sorted once, when its first element comes.
      if (Math.floor(first / inner) % size !== 0) continue;
      for (let index = 0; index < size; index++) {
        line[index] = from[first + index * inner] ?? 0;
        order[index] = index;
      }
      order.sort(direction);
      for (let index = 0; index < size; index++) to[first + index * inner] = order[index] ?? 0;
    }
  };
};

/** Compares two numbers. NaN is larger than all others. */
function ascending(a: number, b: number): number {
  return Number(Number.isNaN(a)) - Number(Number.isNaN(b)) || Number(a > b) - Number(a < b);
}
