import { f32x4, type FunctionBuilder } from '@shardwise/wasm-assembler';
import { expNegative, log } from '../math.ts';
import { RowWriter } from './row-writer.ts';

/** Addresses: x, y. */
export function softmax(): FunctionBuilder {
  const writer = new RowWriter(2);
  const { fn } = writer;
  const [x, y] = [writer.address(0), writer.address(1)];
  writer.eachRow([x, y], () => {
    const [max = fn.float(0)] = writer.fold(['max'], (at) => [at.load(x)]);
    const [sum = fn.float(0)] = writer.fold(['sum'], (at) => {
      const power = fn.let(expNegative(fn, f32x4.sub(at.load(x), max)));
      at.store(y, power);
      return [power];
    });
    const scale = fn.let(f32x4.div(fn.float(1), sum));
    writer.each((at) => at.store(y, f32x4.mul(at.load(y), scale)), 4);
  });
  return fn;
}

/** dx = y (dy - Σ y dy). Addresses: y, dy, dx. */
export function softmaxGrad(): FunctionBuilder {
  const writer = new RowWriter(3);
  const [y, dy, dx] = [writer.address(0), writer.address(1), writer.address(2)];
  writer.eachRow([y, dy, dx], () => {
    const [sum = writer.fn.float(0)] = writer.fold(['sum'], (at) => [
      f32x4.mul(at.load(y), at.load(dy)),
    ]);
    writer.each((at) => at.store(dx, f32x4.mul(at.load(y), f32x4.sub(at.load(dy), sum))), 4);
  });
  return writer.fn;
}

/** Addresses: x, y. */
export function logSoftmax(): FunctionBuilder {
  const writer = new RowWriter(2);
  const { fn } = writer;
  const [x, y] = [writer.address(0), writer.address(1)];
  writer.eachRow([x, y], () => {
    const [max = fn.float(0)] = writer.fold(['max'], (at) => [at.load(x)]);
    const [sum = fn.float(0)] = writer.fold(['sum'], (at) => [
      expNegative(fn, f32x4.sub(at.load(x), max)),
    ]);
    const logSum = fn.let(log(fn, sum));
    writer.each((at) => at.store(y, f32x4.sub(f32x4.sub(at.load(x), max), logSum)), 4);
  });
  return fn;
}

/** dx = dy - exp(y) Σ dy. Addresses: y, dy, dx. */
export function logSoftmaxGrad(): FunctionBuilder {
  const writer = new RowWriter(3);
  const { fn } = writer;
  const [y, dy, dx] = [writer.address(0), writer.address(1), writer.address(2)];
  writer.eachRow([y, dy, dx], () => {
    const [sum = fn.float(0)] = writer.fold(['sum'], (at) => [at.load(dy)]);
    writer.each((at) => {
      const power = expNegative(fn, at.load(y));
      at.store(dx, f32x4.sub(at.load(dy), f32x4.mul(power, sum)));
    });
  });
  return fn;
}
