import { dtypes } from '@shardwise/core/spec';
import { elementCount, inputAt } from '../../program/instruction.ts';
import type { LinkLoop } from './run-loop.ts';

/** Chooses between values of 64 bits, byte by byte. Kernels choose between values of other dtypes. */
export const linkWhere: LinkLoop<'where'> = ({ memory }, step) => {
  const count = elementCount(step.shape);
  const { bytes } = dtypes[step.dtype];
  return (addressOf) => {
    const at = (id: number, length: number): Uint8Array =>
      new Uint8Array(memory.buffer, addressOf(id), length);
    const condition = at(inputAt(step, 0), count);
    const whenTrue = at(inputAt(step, 1), count * bytes);
    const whenFalse = at(inputAt(step, 2), count * bytes);
    const to = at(step.output, count * bytes);
    for (let index = 0; index < count; index++) {
      const from = condition[index] === 0 ? whenFalse : whenTrue;
      for (let byte = index * bytes; byte < (index + 1) * bytes; byte++) to[byte] = from[byte] ?? 0;
    }
  };
};
