import { FunctionBuilder, type Local, usize } from '@shardwise/wasm-assembler';
import { copyElement, type ElementBytes } from './copy-element.ts';
import { eachElementPlace } from './element-places.ts';
import { begin } from './start.ts';

/**
 * Writes the kernel of scatter. Addresses: x, indices, source, y. The last size is y's in bytes. The kernel returns the
 * place of the first index that is out of range, or -1.
 */
export function scatter(loops: number, elementBytes: ElementBytes): FunctionBuilder {
  const sizes = 2 * loops + 3;
  const fn = new FunctionBuilder(sizes + 4);
  const address = (index: number): Local<'usize'> => fn.parameter(sizes + index);
  const [x, indices, source, y] = [address(0), address(1), address(2), address(3)];
  begin(fn, 'copy', y, x, fn.parameter(sizes - 1));
  eachElementPlace(fn, loops, indices, y, (place, element) => {
    const from = usize.add(source, usize.mul(element, usize.const(elementBytes)));
    fn.do(copyElement(place, from, elementBytes));
  });
  return fn;
}
