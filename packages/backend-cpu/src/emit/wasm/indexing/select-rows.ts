import { FunctionBuilder, memory, usize } from '@shardwise/wasm-assembler';
import { forEachIndex } from './each-index.ts';
import { copyElement, type ElementBytes } from './copy-element.ts';

/**
 * Writes the kernel that selects rows of x. Rows are `elementBytes` long, or of any length if it is undefined. Shape: x
 * [outer, size, row], indices [count] -> [outer, count, row]. Parameters: outer, size, count, the bytes of a row;
 * addresses: x, indices, y. The kernel returns the place of the first index out of range, or -1.
 */
export function selectRows(elementBytes: ElementBytes | undefined): FunctionBuilder {
  const fn = new FunctionBuilder(7);
  const [outerCount, size, count] = [fn.parameter(0), fn.parameter(1), fn.parameter(2)];
  const rowBytes = fn.parameter(3);
  const [x, indices, y] = [fn.parameter(4), fn.parameter(5), fn.parameter(6)];
  forEachIndex(
    fn,
    { outerCount, indices, count, size },
    (index) => {
      const from = usize.add(x, usize.mul(index, rowBytes));
      if (elementBytes === undefined) fn.do(memory.copy(y, from, rowBytes));
      else fn.do(copyElement(y, from, elementBytes));
      fn.set(y, usize.add(y, rowBytes));
    },
    () => fn.set(x, usize.add(x, usize.mul(size, rowBytes))),
  );
  return fn;
}
