import { f32x4 } from '@shardwise/wasm-assembler';
import { expNegative, log } from './math.ts';
import { floats, type RowProgram } from './rows.ts';

/** Softmax over rows. Addresses: x, y. */
export const softmax: RowProgram = {
  operands: floats(2),
  keeps: true,
  write: (rows) => {
    const { fn } = rows;
    const [x, y] = [rows.address(0), rows.address(1)];
    rows.eachRow([x, y], () => {
      const [max = fn.float(0)] = rows.fold(['max'], (at) => [at.load(x)]);
      const [sum = fn.float(0)] = rows.fold(['sum'], (at) => {
        const power = fn.let(expNegative(fn, f32x4.sub(at.load(x), max)));
        at.keep(y, power);
        return [power];
      });
      const scale = fn.let(f32x4.div(fn.float(1), sum));
      rows.each((at) => at.store(y, f32x4.mul(at.load(y), scale)), 4);
    });
  },
};

/** dx = y (dy - Σ y dy). Addresses: y, dy, dx. */
export const softmaxGrad: RowProgram = {
  operands: floats(3),
  write: (rows) => {
    const [y, dy, dx] = [rows.address(0), rows.address(1), rows.address(2)];
    rows.eachRow([y, dy, dx], () => {
      const [sum = rows.fn.float(0)] = rows.fold(['sum'], (at) => [
        f32x4.mul(at.load(y), at.load(dy)),
      ]);
      rows.each((at) => at.store(dx, f32x4.mul(at.load(y), f32x4.sub(at.load(dy), sum))), 4);
    });
  },
};

/** Logarithm of softmax over rows. Addresses: x, y. */
export const logSoftmax: RowProgram = {
  operands: floats(2),
  write: (rows) => {
    const { fn } = rows;
    const [x, y] = [rows.address(0), rows.address(1)];
    rows.eachRow([x, y], () => {
      const [max = fn.float(0)] = rows.fold(['max'], (at) => [at.load(x)]);
      const [sum = fn.float(0)] = rows.fold(['sum'], (at) => [
        expNegative(fn, f32x4.sub(at.load(x), max)),
      ]);
      const logSum = fn.let(log(fn, sum));
      rows.each((at) => at.store(y, f32x4.sub(f32x4.sub(at.load(x), max), logSum)), 4);
    });
  },
};

/** dx = dy - exp(y) Σ dy. Addresses: y, dy, dx. */
export const logSoftmaxGrad: RowProgram = {
  operands: floats(3),
  write: (rows) => {
    const { fn } = rows;
    const [y, dy, dx] = [rows.address(0), rows.address(1), rows.address(2)];
    rows.eachRow([y, dy, dx], () => {
      const [sum = fn.float(0)] = rows.fold(['sum'], (at) => [at.load(dy)]);
      rows.each((at) => {
        const power = expNegative(fn, at.load(y));
        at.store(dx, f32x4.sub(at.load(dy), f32x4.mul(power, sum)));
      });
    });
  },
};
