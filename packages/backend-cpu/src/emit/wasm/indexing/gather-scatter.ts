import { FunctionBuilder, usize, type Local, f32, i32 } from '@shardwise/wasm-assembler';
import { copyElement, type ElementBytes } from './copy-element.ts';
import { eachElementPlace, visitElementPlaces } from './element-places.ts';
import { begin, type Start } from './start.ts';

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

/**
 * Writes the kernel of scatter. Addresses: x, indices, source, y. The last size is y's in bytes. The kernel returns the
 * place of the first index that is out of range, or -1. x and y may be the same memory: then all indices are looked at
 * first, so that nothing has changed if one is out of range.
 */
export function scatter(loops: number, elementBytes: ElementBytes): FunctionBuilder {
  const sizes = 2 * loops + 3;
  const fn = new FunctionBuilder(sizes + 4);
  const address = (index: number): Local<'usize'> => fn.parameter(sizes + index);
  const [x, indices, source, y] = [address(0), address(1), address(2), address(3)];
  const isInPlace = fn.let(usize.eqz(usize.sub(y, x)));
  fn.if(i32.eqz(isInPlace), () => begin(fn, 'copy', y, x, fn.parameter(sizes - 1)));
  fn.if(isInPlace, () => visitElementPlaces(fn, loops, indices, y, () => {}));
  eachElementPlace(fn, loops, indices, y, (place, element) => {
    const from = usize.add(source, usize.mul(element, usize.const(elementBytes)));
    fn.do(copyElement(place, from, elementBytes));
  });
  return fn;
}

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
