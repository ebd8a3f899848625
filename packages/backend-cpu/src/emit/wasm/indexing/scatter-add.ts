import { f32, FunctionBuilder, i32, type Local, usize } from '@shardwise/wasm-assembler';
import { eachElementPlace } from './element-places.ts';
import { begin, type Start } from './start.ts';

/**
 * Writes the kernel of scatterAdd. Addresses: x if it is copied, indices, source, y. The last size is y's in bytes. The
 * kernel returns the place of the first index that is out of range, or -1.
 */
export function scatterAdd(loops: number, dtype: 'f32' | 'i32', start: Start): FunctionBuilder {
  const sizes = 2 * loops + 3;
  const fn = new FunctionBuilder(sizes + (start === 'copy' ? 4 : 3));
  const first = start === 'copy' ? 1 : 0;
  const address = (index: number): Local<'usize'> => fn.parameter(sizes + first + index);
  const [indices, source, y] = [address(0), address(1), address(2)];
  begin(fn, start, y, fn.parameter(sizes), fn.parameter(sizes - 1));
  eachElementPlace(fn, loops, indices, y, (place, element) => {
    const to = fn.let(place);
    const from = usize.add(source, usize.shl(element, usize.const(2)));
    if (dtype === 'f32') fn.do(f32.store(to, f32.add(f32.load(to), f32.load(from))));
    else fn.do(i32.store(to, i32.add(i32.load(to), i32.load(from))));
  });
  return fn;
}
