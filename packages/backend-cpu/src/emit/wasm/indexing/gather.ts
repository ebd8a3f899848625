import { FunctionBuilder, usize } from '@shardwise/wasm-assembler';
import { copyElement, type ElementBytes } from './copy-element.ts';
import { eachElementPlace } from './element-places.ts';

/**
 * Writes the kernel of gather. Addresses: x, indices, y. It returns the place of the first index that is out of range,
 * or -1.
 */
export function gather(loops: number, elementBytes: ElementBytes): FunctionBuilder {
  const fn = new FunctionBuilder(2 * loops + 5);
  const first = 2 * loops + 2;
  const [x, indices, y] = [fn.parameter(first), fn.parameter(first + 1), fn.parameter(first + 2)];
  eachElementPlace(fn, loops, indices, x, (place, element) => {
    const to = usize.add(y, usize.mul(element, usize.const(elementBytes)));
    fn.do(copyElement(to, place, elementBytes));
  });
  return fn;
}
